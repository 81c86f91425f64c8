#!/usr/bin/env bash
# Installs Debian's Prometheus for the tests, as root or with sudo. They start
# their own (internal/telemetry), so the package's service is not started. Does
# nothing when Prometheus is there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if command -v prometheus >/dev/null; then
	exit 0
fi
install_idle prometheus
