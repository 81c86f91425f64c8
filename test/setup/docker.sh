#!/usr/bin/env bash
# Makes a Docker engine answer on a Debian machine, as root or with sudo: nothing
# to do when one answers; else Debian's docker.io, started by the service manager
# or, where none runs, by hand. `docker.sh stop` ends an engine that this script
# started by hand, and no other.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

socket=/var/run/docker.sock
state=/var/run/thv-test-dockerd
log=/var/log/thv-test-dockerd.log

if [ "${1:-}" = stop ]; then
	if pid=$(ours "$state" dockerd); then
		echo "stopping dockerd ($pid), which an earlier run of this script started" >&2
		end "$pid" dockerd "$log"
	fi
	as_root rm -f "$state"
	exit 0
fi
if [ $# -gt 0 ]; then
	echo "usage: docker.sh [stop]" >&2
	exit 2
fi

command -v curl >/dev/null || install_packages curl
if answers "$socket"; then
	exit 0
fi
if [ -n "${DOCKER_HOST:-}${THV_ENGINE:-}" ]; then
	echo "the engine at ${THV_ENGINE:-$DOCKER_HOST} was chosen by you; this script leaves it alone" >&2
	exit 0
fi
if ! command -v dockerd >/dev/null || ! command -v iptables >/dev/null; then
	install_packages docker.io iptables
fi

# start_by_hand starts dockerd in the background.
start_by_hand() {
	# Pid files of an engine that was killed. Where orphans are not reaped its
	# processes stay as zombies, which dockerd treats as alive.
	for note in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
		pid=$(as_root cat "$note" 2>/dev/null) || continue
		case $(cut -d ' ' -f 3 "/proc/$pid/stat" 2>/dev/null) in
		"" | Z) as_root rm -f "$note" ;;
		esac
	done
	as_root sh -c "setsid dockerd >>'$log' 2>&1 </dev/null & echo \$! >'$state'"
}

starts=
if [ -d /run/systemd/system ]; then
	as_root systemctl start docker
elif ! ours "$state" dockerd >/dev/null; then # one that is still starting is waited for
	echo "starting dockerd by hand; its log is $log"
	as_root sh -c ": >'$log'"
	start_by_hand
	starts=1
fi
deadline=$((SECONDS + 120))
while [ $SECONDS -lt $deadline ]; do
	if answers "$socket"; then
		exit 0
	fi
	# dockerd waits 15 s for its containerd, which takes longer where it is read
	# from a cold disk.
	if [ -n "$starts" ] && [ -s "$state" ] && [ ! -d "/proc/$(as_root cat "$state")" ]; then
		if [ "$starts" -ge 4 ]; then
			echo "dockerd ended at each of $starts starts" >&2
			break
		fi
		starts=$((starts + 1))
		start_by_hand
	fi
	sleep 0.2
done
echo "no container engine answers at $socket" >&2
if [ -d /run/systemd/system ]; then
	as_root journalctl -u docker --no-pager -n 20 >&2 || true
else
	as_root tail -n 20 "$log" >&2 || true
fi
exit 1
