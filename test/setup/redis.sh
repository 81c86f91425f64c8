#!/usr/bin/env bash
# Installs Debian's Redis for the tests, as root or with sudo. They start their own
# servers and sentinels (internal/authserver/storage/redis), so the services of the
# packages are not started. Does nothing when Redis is there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

installed() {
	command -v redis-server >/dev/null && command -v redis-sentinel >/dev/null
}
if installed; then
	exit 0
fi
# invoke-rc.d starts no service when this program exits with 101 (Debian policy,
# /usr/share/doc/init-system-helpers/README.policy-rc.d).
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
	as_root chmod 755 "$policy"
	trap 'as_root rm -f "$policy"' EXIT
fi
install_packages redis-server redis-sentinel
if ! installed; then
	echo "Redis is installed, and its programs are not on the PATH" >&2
	exit 1
fi
