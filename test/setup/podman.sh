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
# `podman.sh rootless` starts one more, of a user without privileges that it makes.
# `podman.sh stop` ends the engines that this script started, and removes what they
# stored, and the user.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

dir=/var/lib/thv-test-podman
socket=$dir/podman.sock
state=$dir/pid
log=$dir/log
user=thv-test-rootless
home=/var/lib/$user

podman_here() {
	as_root env CONTAINERS_CONF="$dir/containers.conf" CONTAINERS_REGISTRIES_CONF="$dir/registries.conf" \
		podman --root "$dir/root" --runroot "$dir/run" --tmpdir "$dir/tmp" --network-config-dir "$dir/networks" \
		--cgroup-manager cgroupfs --events-backend file "$@"
}

# as_user runs a command as the user without privileges.
as_user() {
	as_root setpriv --reuid "$(id -u "$user")" --regid "$(id -g "$user")" --clear-groups \
		env -i HOME="$home" PATH="$PATH" XDG_RUNTIME_DIR="$home/run" CONTAINERS_CONF="$home/containers.conf" "$@"
}

if [ "${1:-}" = stop ] && id "$user" >/dev/null 2>&1; then
	as_user podman --events-backend file --cgroup-manager cgroupfs rm -fa >/dev/null 2>&1 || true
	if pid=$(ours "$home/pid" podman); then
		end "$pid" podman "$home/log"
	fi
	as_root sh -c 'pgrep -u "$1" | xargs -r kill -9' sh "$user" || true # its pause process
	as_root rm -rf --one-file-system "$home"
	as_root userdel "$user"
fi
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
	if ! command -v podman >/dev/null || ! command -v iptables >/dev/null || ! command -v newuidmap >/dev/null; then
		install_packages podman runc conmon containernetworking-plugins iptables uidmap
	fi
}
if [ "${1:-}" = install ]; then
	install
	exit 0
fi
# The usual limits are more than a confined root may set: no more than what
# holds here. Podman 4.3 mixes up soft and hard, so both are the same.
limit() {
	local most
	most=$(ulimit "-H$1")
	if [ "$most" = unlimited ] || [ "$most" -gt 4096 ]; then most=4096; fi
	echo "$most:$most"
}
limits() { printf '[containers]\ndefault_ulimits = ["nofile=%s", "nproc=%s"]\n' "$(limit n)" "$(limit u)"; }

# wait_for SOCKET LOG prints the socket when an engine answers there.
wait_for() {
	local deadline=$((SECONDS + 60))
	while [ $SECONDS -lt $deadline ]; do
		if answers "$1"; then
			echo "$1"
			exit 0
		fi
		sleep 0.2
	done
	echo "podman does not answer at $1" >&2
	as_root tail -n 20 "$2" >&2 || true
	exit 1
}

if [ "${1:-}" = rootless ]; then
	install
	if ! id "$user" >/dev/null 2>&1; then
		as_root useradd --system --create-home --home-dir "$home" --shell /bin/sh "$user"
		as_root usermod --add-subuids 2000000-2065535 --add-subgids 2000000-2065535 "$user"
	fi
	if ! answers "$home/run/podman.sock"; then
		limits | as_root tee "$home/containers.conf" >/dev/null
		as_user mkdir -p -m 700 "$home/run"
		echo "starting podman of $user by hand; its log is $home/log" >&2
		# shellcheck disable=SC2016 # the inner shell expands
		as_user sh -c 'cd "$HOME" || exit
			setsid podman --cgroup-manager cgroupfs --events-backend file system service -t 0 "unix://$HOME/run/podman.sock" \
				>log 2>&1 </dev/null &
			echo $! >pid'
	fi
	wait_for "$home/run/podman.sock" "$home/log"
fi
if [ $# -gt 0 ]; then
	echo "usage: podman.sh [install|rootless|stop]" >&2
	exit 2
fi

if command -v curl >/dev/null && answers "$socket"; then
	echo "$socket"
	exit 0
fi
install

if ! ours "$state" podman >/dev/null; then
	as_root mkdir -p "$dir/networks"
	limits | as_root tee "$dir/containers.conf" >/dev/null
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
wait_for "$socket" "$log"
