#!/usr/bin/env bash
# Builds MinIO for `make minio-test`, at the version of test/minio/module/go.mod, into
# test/.cache/minio: five minutes of a processor, from the Go module proxy. Does nothing when it
# is there already.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=test/.cache/minio

if [ -x "$cache/minio" ] && cmp -s test/minio/module/go.sum "$cache/.installed"; then
	exit 0
fi
echo "building MinIO for the tests into $cache"
mkdir -p "$cache"
out=$PWD/$cache/minio
# Started from go.mod's folder: it is a module of its own.
(cd test/minio/module && CGO_ENABLED=0 GOFLAGS='' GOWORK=off go build -mod=readonly -trimpath -ldflags '-s -w' -o "$out.new" github.com/minio/minio)
mv "$out.new" "$out"
cp test/minio/module/go.sum "$cache/.installed"
