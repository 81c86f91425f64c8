#!/usr/bin/env bash
# thv-test/go:1.26: thv-test/debian:bookworm with this machine's own Go, for tests
# of go:// where the host has none. About 15 s. Nothing to do when the tag exists.
. "$(dirname "$0")/need.sh"
tag=thv-test/go:1.26
if have "$tag"; then exit 0; fi
need go "it is what goes into the image (https://go.dev/dl)"
"$(dirname "$0")/debian.sh"

root=$(go env GOROOT)
cat >"$work/Dockerfile" <<'END'
FROM thv-test/debian:bookworm
ADD go /usr/local/go
ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOTOOLCHAIN=local
RUN go version
END
# GOROOT may be a toolchain module, whose directory is not called go.
name=$(basename "$root")
if ! tar -c -C "$work" Dockerfile -C "$(dirname "$root")" --exclude="$name/test" --exclude="$name/doc" --exclude="$name/api" \
	--transform="s|^$name|go|" "$name" | bounded docker build -t "$tag" - >"$work/build.log" 2>&1; then
	tail -n 20 "$work/build.log" >&2
	echo "go.sh: building $tag failed" >&2
	exit 1
fi
echo "made $tag"
