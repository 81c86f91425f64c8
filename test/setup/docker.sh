#!/usr/bin/env bash
# Makes a Docker engine answer on a Debian machine, as root or with sudo: nothing
# to do when one answers; else Debian's docker.io, started by the service manager
# or, where none runs, by hand. `docker.sh stop` ends an engine that this script
# started by hand, and no other.
set -euo pipefail

socket=/var/run/docker.sock
state=/var/run/thv-test-dockerd
log=/var/log/thv-test-dockerd.log

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)

# The client alone proves nothing, and may be missing: ask the socket.
answers() {
	"${as_root[@]}" curl -fsS --max-time 5 --unix-socket "$socket" http://engine/_ping >/dev/null 2>&1
}

ours() {
	local pid
	pid=$("${as_root[@]}" cat "$state" 2>/dev/null) || return 1
	[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] && echo "$pid"
}

if [ "${1:-}" = stop ]; then
	if pid=$(ours); then
		"${as_root[@]}" kill "$pid"
		for _ in $(seq 100); do
			[ -d "/proc/$pid" ] || break
			sleep 0.1
		done
	fi
	"${as_root[@]}" rm -f "$state"
	exit 0
fi

install() {
	"${as_root[@]}" apt-get update -q
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
}

command -v curl >/dev/null || install curl
if answers; then
	exit 0
fi
if [ -n "${DOCKER_HOST:-}${THV_ENGINE:-}" ]; then
	echo "the engine at ${THV_ENGINE:-$DOCKER_HOST} was chosen by you; this script leaves it alone" >&2
	exit 0
fi
command -v dockerd >/dev/null || install docker.io iptables

if [ -d /run/systemd/system ]; then
	"${as_root[@]}" systemctl start docker
else
	echo "starting dockerd by hand; its log is $log"
	# Notes of an engine that was killed. Where nobody reaps orphans its processes
	# stay as zombies, which dockerd takes for alive.
	for note in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
		pid=$("${as_root[@]}" cat "$note" 2>/dev/null) || continue
		case $(cut -d ' ' -f 3 "/proc/$pid/stat" 2>/dev/null) in
		"" | Z) "${as_root[@]}" rm -f "$note" ;;
		esac
	done
	"${as_root[@]}" sh -c "setsid dockerd >'$log' 2>&1 < /dev/null & echo \$! >'$state'"
fi
for _ in $(seq 300); do
	if answers; then
		exit 0
	fi
	sleep 0.2
done
echo "no container engine answers at $socket after 60 s" >&2
"${as_root[@]}" tail -n 20 "$log" >&2 || true
exit 1
