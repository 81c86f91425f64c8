# What every script in this folder starts with; to be sourced. Base images are
# made here because a test machine reaches no container registry: from Debian's
# archive and from packages of npm, under names that no registry has (thv-test/).
set -euo pipefail

# A BuildKit plugin is not in Debian 12; the classic builder is in the daemon.
export DOCKER_BUILDKIT=0

# Node.js trusts its own list of authorities, not the system's: behind a proxy whose
# authority is in the system's, npm would fetch nothing.
if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -r /etc/ssl/certs/ca-certificates.crt ]; then
	export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
fi

# need COMMAND HOW: fails with one clear line when a command is missing.
need() {
	command -v "$1" >/dev/null || { echo "$(basename "$0"): $1 is not installed: $2" >&2; exit 1; }
}

# have TAG: is the image there already?
have() {
	docker image inspect "$1" >/dev/null 2>&1
}

# bounded COMMAND...: ends a command that takes ten minutes: a mirror that hangs
# fails, instead of the whole test run.
bounded() {
	timeout --kill-after=10 600 "$@"
}

# build TAG CONTEXT: builds quietly; the builder's output is shown when it fails.
build() {
	bounded docker build -t "$1" "$2" >"$work/build.log" 2>&1 && return
	tail -n 20 "$work/build.log" >&2
	echo "$(basename "$0"): building $1 failed" >&2
	exit 1
}

need docker "test/images needs the docker command (Debian: apt-get install docker.io)"
docker version >/dev/null 2>&1 || { echo "$(basename "$0"): no Docker daemon answers; start one (test/setup/docker.sh)" >&2; exit 1; }

# The certificates this machine trusts. A registry or mirror behind a private
# authority is trusted here and nowhere inside an image.
ca=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
[ -r "$ca" ] || { echo "$(basename "$0"): no certificate bundle at $ca (Debian: apt-get install ca-certificates)" >&2; exit 1; }

work=$(mktemp -d)
# A debootstrap that was killed leaves the kernel's file systems mounted below.
trap 'rm -rf --one-file-system "$work"' EXIT
