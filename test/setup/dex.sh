#!/usr/bin/env bash
# Builds Dex, the second kind of identity provider of the tests, at the commit of
# test/dex/module/go.mod, into test/.cache/dex: about a minute and a half of two
# cores, from the Go module proxy. Its SQLite needs a C compiler (tools.sh). Does
# nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=test/.cache/dex

if [ -x "$cache/dex" ] && cmp -s test/dex/module/go.sum "$cache/.installed"; then
	exit 0
fi
command -v gcc >/dev/null || command -v clang >/dev/null || test/setup/tools.sh
echo "building Dex for the tests into $cache"
mkdir -p "$cache"
out=$PWD/$cache/dex
# Started from go.mod's folder: it is a module of its own.
(cd test/dex/module && CGO_ENABLED=1 GOFLAGS='' GOWORK=off go build -mod=readonly -trimpath -o "$out.new" github.com/dexidp/dex/cmd/dex)
mv "$out.new" "$out"
"$out" version
cp test/dex/module/go.sum "$cache/.installed"
