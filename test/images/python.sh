#!/usr/bin/env bash
# thv-test/python:bookworm: thv-test/debian:bookworm with Debian's Python 3, venv
# and pip. About 30 s. Nothing to do when the tag exists.
. "$(dirname "$0")/need.sh"
tag=thv-test/python:bookworm
if have "$tag"; then exit 0; fi
"$(dirname "$0")/debian.sh"

mkdir "$work/context"
cp "$ca" "$work/context/ca.crt"
# apt trusts the host's bundle while it installs, for a mirror over HTTPS behind
# a private authority; the image does not keep it.
cat >"$work/context/Dockerfile" <<'END'
FROM thv-test/debian:bookworm
COPY ca.crt /tmp/host-ca.crt
RUN apt-get -o Acquire::https::CAInfo=/tmp/host-ca.crt update -q \
 && DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::https::CAInfo=/tmp/host-ca.crt install -qy --no-install-recommends python3 python3-venv python3-pip \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /tmp/host-ca.crt \
 && python3 --version
END
build "$tag" "$work/context"
echo "made $tag"
