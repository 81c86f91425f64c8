#!/usr/bin/env bash
# Installs what `make conformance` needs into test/.cache/conformance: the
# official suite, npm's everything server, the TypeScript SDK with our everything
# server on it and a Node.js that all accept, at the versions of
# test/conformance/package-lock.json, and the go-sdk's conformance server and client, at
# the version of go.mod. Does nothing when they are installed already.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.."
cache=test/.cache/conformance
pins=test/conformance

test/images/node.sh # a container for the servers that are programs of Node.js

# Everything that decides what is installed; a change of it installs again.
stamp() { cat test/setup/conformance.sh $pins/package-lock.json $pins/fixtures/*.go $pins/servers/*.mjs go.sum; }
stamp=$(stamp | sha256sum)
if [ "$(cat "$cache/.installed" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi
echo "installing the conformance suite and its servers into $cache"
npm_install $pins "$cache"
link_node "$cache"
# Beside the packages that it imports.
rm -rf "$cache/servers"
cp -r $pins/servers "$cache/"

# The server's source is a main package: it is compiled beside ours, which adds
# HTTP+SSE and a session-era stdio. Static, so that an image from nothing can hold it.
go mod download github.com/modelcontextprotocol/go-sdk
sdk=$(go list -m -f '{{.Dir}}' github.com/modelcontextprotocol/go-sdk)
source=$cache/everything-server-source
rm -rf "$source"
mkdir -p "$source"
sed 's/^func main() {/func upstream() {/' "$sdk/conformance/everything-server/main.go" >"$source/upstream.go"
cp $pins/fixtures/legacy.go "$source/legacy.go"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$cache/everything-server" "$source/upstream.go" "$source/legacy.go"
# The client of the suite's scenarios for clients.
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$cache/everything-client" \
	github.com/modelcontextprotocol/go-sdk/conformance/everything-client

echo "$stamp" >"$cache/.installed"
