#!/usr/bin/env bash
# thv-test/debian:bookworm: the smallest Debian 12, with ca-certificates. About
# 35 s, 210 MB. Nothing to do when the tag exists. Needs root, for debootstrap.
. "$(dirname "$0")/need.sh"
tag=thv-test/debian:bookworm
if have "$tag"; then exit 0; fi
need debootstrap "apt-get install debootstrap"
[ "$(id -u)" = 0 ] || { echo "debian.sh: debootstrap needs root" >&2; exit 1; }

# Where this machine gets its own packages from, so that a mirror is respected.
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
if ! bounded debootstrap --variant=minbase --include=ca-certificates bookworm "$work/root" "$mirror" >"$work/log" 2>&1; then
	tail -n 20 "$work/log" >&2
	echo "debian.sh: debootstrap from $mirror failed (DEBIAN_MIRROR names another mirror)" >&2
	exit 1
fi
rm -rf "$work"/root/var/cache/apt/archives/*.deb
tar -C "$work/root" -c . | docker import - "$tag" >/dev/null
echo "made $tag"
