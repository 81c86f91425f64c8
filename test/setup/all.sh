#!/usr/bin/env bash
# Brings a fresh Debian machine with Go to where every test can run: C compiler,
# container engines, third-party clients, base images. A step that is done already
# does nothing, so running this again is quick.
#
#	all.sh [COMMAND ...]
#
# After Debian's tools are installed, the other steps run in lanes beside each
# other: most of them wait for the network. COMMAND is one more lane. What a lane
# prints is shown when it ends. THV_TIMES names a file that gets the duration of
# each step.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup/lib.sh

# One `apt-get update` is enough for all steps (install_packages).
THV_SETUP_RUN=$(mktemp -d)
export THV_SETUP_RUN

as_root true # asks for sudo's password here, where it can be answered
timed "set-up: Debian's tools" test/setup/tools.sh

engine_lane() {
	timed "set-up: Docker" test/setup/docker.sh
	timed "set-up: base images" test/images/all.sh
	timed "set-up: conformance suite" test/setup/conformance.sh
}
clients_lane() {
	timed "set-up: clients" test/setup/clients.sh
	timed "set-up: identity provider" test/setup/idp.sh
	timed "set-up: Python clients" test/setup/python-clients.sh
}
debian_lane() {
	timed "set-up: PostgreSQL" test/setup/postgres.sh
	timed "set-up: Redis" test/setup/redis.sh
	timed "set-up: Chromium" test/setup/chromium.sh
	timed "set-up: Prometheus" test/setup/prometheus.sh
	timed "set-up: keyring" test/setup/keyring.sh
	timed "set-up: Podman" test/setup/podman.sh install
}
dex_lane() {
	timed "set-up: Dex" test/setup/dex.sh
}
kubernetes_lane() {
	timed "set-up: Kubernetes" test/setup/kubernetes.sh
}
command_lane() {
	[ $# -eq 0 ] || "$@"
}

declare -A lane_of
# start LANE [ARGUMENT ...] runs a lane in a process group of its own.
start() {
	set -m
	"$@" >"$THV_SETUP_RUN/$1" 2>&1 </dev/null &
	set +m
	lane_of[$!]=$1
}
end_lanes() {
	for pid in "${!lane_of[@]}"; do kill -- "-$pid" 2>/dev/null || true; done
	rm -rf "$THV_SETUP_RUN"
}
trap end_lanes EXIT
trap 'exit 130' INT TERM

start engine_lane
start clients_lane
start debian_lane
start kubernetes_lane
start dex_lane
start command_lane "$@"
while [ ${#lane_of[@]} -gt 0 ]; do
	status=0
	wait -n -p pid "${!lane_of[@]}" || status=$?
	lane=${lane_of[$pid]}
	unset "lane_of[$pid]"
	cat "$THV_SETUP_RUN/$lane"
	if [ "$status" != 0 ]; then
		echo "all.sh: $lane failed (status $status); the others are ended" >&2
		exit 1
	fi
done
