#!/usr/bin/env bash
# Installs Debian's Chromium for the tests of the registry's web page, as root or
# with sudo. The tests start it themselves. Does nothing when it is there.
set -euo pipefail

command -v chromium >/dev/null && exit 0
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends chromium
if ! command -v chromium >/dev/null; then
	echo "Chromium is installed, and it is not where it should be" >&2
	exit 1
fi
