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
install_idle redis-server redis-sentinel
if ! installed; then
	echo "Redis is installed, and its programs are not on the PATH" >&2
	exit 1
fi
