#!/usr/bin/env bash
# Installs what building and testing need from Debian: a C compiler for the race
# detector, git, curl, npm, debootstrap and the docker client. Does nothing when they
# are there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
packages=()
command -v gcc >/dev/null || command -v clang >/dev/null || packages+=(gcc libc6-dev)
command -v git >/dev/null || packages+=(git)
command -v debootstrap >/dev/null || packages+=(debootstrap)
command -v curl >/dev/null || packages+=(curl)
command -v npm >/dev/null || packages+=(npm)
command -v docker >/dev/null || packages+=(docker.io)
command -v ip >/dev/null || packages+=(iproute2)
command -v pgrep >/dev/null || packages+=(procps)
[ ${#packages[@]} -gt 0 ] || exit 0
install_packages "${packages[@]}"
