#!/usr/bin/env bash
# Installs Debian's Prometheus for the tests, as root or with sudo. They start
# their own (internal/telemetry), so the package's service is not started. Does
# nothing when Prometheus is there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if command -v prometheus >/dev/null; then
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
install_packages prometheus
