#!/usr/bin/env bash
# Makes a Podman engine answer on a Debian machine, as root or with sudo, at a
# socket of its own with storage of its own, so that it meets no other Podman:
#
#	THV_TEST_PODMAN=$(test/setup/podman.sh) go test -tags integration -run TestPodman ./internal/container/docker
#	test/setup/podman.sh stop
#
# `make test` does that.
#
# Prints the socket. `podman.sh install` only installs Debian's packages.
# `podman.sh stop` ends the engine that this script started, and removes what it
# stored.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

dir=/var/lib/thv-test-podman
socket=$dir/podman.sock
state=$dir/pid
log=$dir/log

podman_here() {
	as_root env CONTAINERS_CONF="$dir/containers.conf" CONTAINERS_REGISTRIES_CONF="$dir/registries.conf" \
		podman --root "$dir/root" --runroot "$dir/run" --tmpdir "$dir/tmp" --network-config-dir "$dir/networks" \
		--cgroup-manager cgroupfs --events-backend file "$@"
}

if [ "${1:-}" = stop ]; then
	[ -d "$dir" ] || exit 0
	podman_here rm -fa >/dev/null 2>&1 || true
	podman_here network prune -f >/dev/null 2>&1 || true # bridges on the host
	if pid=$(ours "$state" podman); then
		end "$pid" podman "$log"
	fi
	# Layers that are still mounted would be emptied by rm, not removed.
	podman_here umount -fa >/dev/null 2>&1 || true
	if grep -q " $dir/" /proc/mounts; then
		as_root umount "$dir/root/overlay" 2>/dev/null || true
	fi
	as_root rm -rf --one-file-system "$dir"
	exit 0
fi
install() {
	command -v curl >/dev/null || install_packages curl
	if ! command -v podman >/dev/null || ! command -v iptables >/dev/null; then
		install_packages podman runc conmon containernetworking-plugins iptables
	fi
}
if [ "${1:-}" = install ]; then
	install
	exit 0
fi
if [ $# -gt 0 ]; then
	echo "usage: podman.sh [install|stop]" >&2
	exit 2
fi

if command -v curl >/dev/null && answers "$socket"; then
	echo "$socket"
	exit 0
fi
install

if ! ours "$state" podman >/dev/null; then
	as_root mkdir -p "$dir/networks"
	# The usual limits are more than a confined root may set: no more than what
	# holds here. Podman 4.3 mixes up soft and hard, so both are the same.
	limit() {
		local most
		most=$(ulimit "-H$1")
		if [ "$most" = unlimited ] || [ "$most" -gt 4096 ]; then most=4096; fi
		echo "$most:$most"
	}
	printf '[containers]\ndefault_ulimits = ["nofile=%s", "nproc=%s"]\n' "$(limit n)" "$(limit u)" |
		as_root tee "$dir/containers.conf" >/dev/null
	# As Docker does without being told.
	printf '[[registry]]\nlocation = "127.0.0.1"\ninsecure = true\n' |
		as_root tee "$dir/registries.conf" >/dev/null
	echo "starting podman by hand; its log is $log" >&2
	# shellcheck disable=SC2016 # the inner shell expands
	as_root env CONTAINERS_CONF="$dir/containers.conf" CONTAINERS_REGISTRIES_CONF="$dir/registries.conf" \
		sh -c 'dir=$1
			cd "$dir" || exit # conmon writes a file "oom" where it is
			setsid podman --root "$dir/root" --runroot "$dir/run" --tmpdir "$dir/tmp" --network-config-dir "$dir/networks" \
				--cgroup-manager cgroupfs --events-backend file system service -t 0 "unix://$dir/podman.sock" \
				>"$dir/log" 2>&1 </dev/null &
			echo $! >"$dir/pid"' sh "$dir"
fi
deadline=$((SECONDS + 30))
while [ $SECONDS -lt $deadline ]; do
	if answers "$socket"; then
		echo "$socket"
		exit 0
	fi
	sleep 0.2
done
echo "podman does not answer at $socket" >&2
as_root tail -n 20 "$log" >&2 || true
exit 1
