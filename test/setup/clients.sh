#!/usr/bin/env bash
# Installs the third-party MCP clients that the tests use, at the versions of
# test/clients/package-lock.json, into test/.cache/clients: the inspector, the
# TypeScript SDK, mcp-remote, OAuth libraries, and a Node.js that all accept. Does
# nothing when they are there already.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.."
cache=test/.cache/clients

if [ -f "$cache/.installed" ] && cmp -s test/clients/package-lock.json "$cache/.installed"; then
	exit 0
fi
echo "installing the MCP clients for the tests into $cache"
npm_install test/clients "$cache"
link_node "$cache"
cp test/clients/package-lock.json "$cache/.installed"
