#!/usr/bin/env bash
# Installs Debian's PostgreSQL for the tests, as root or with sudo. They start
# their own servers (test/postgres), so no cluster is made, and the package's
# service has nothing to run. Does nothing when PostgreSQL is there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

installed() {
	command -v initdb >/dev/null && command -v postgres >/dev/null && return
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}
if installed; then
	exit 0
fi
# The package makes a cluster and starts it unless told not to, and only while it
# is being installed: a cluster that is made later is not prevented.
dropin=/etc/postgresql-common/createcluster.d/thv-test.conf
as_root mkdir -p "$(dirname "$dropin")"
echo 'create_main_cluster = false' | as_root tee "$dropin" >/dev/null
trap 'as_root rm -f "$dropin"' EXIT
install_packages postgresql
if ! installed; then
	echo "PostgreSQL is installed, and its initdb is not where it should be" >&2
	exit 1
fi
