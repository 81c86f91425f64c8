# shellcheck shell=bash
# What the scripts of this folder share; they read it with `.`.

# Node.js trusts its own list of authorities, not the system's: behind a proxy whose
# authority is in the system's, npm would fetch nothing.
if [ -z "${NODE_EXTRA_CA_CERTS:-}" ] && [ -r /etc/ssl/certs/ca-certificates.crt ]; then
	export NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
fi

# as_root COMMAND... runs it as root, or with sudo.
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install_packages PACKAGE... installs packages of Debian. Its output goes to
# standard error: standard output belongs to the script. Scripts that run beside
# each other wait for each other, and below all.sh the lists are fetched once.
install_packages() {
	(
		exec 9>"${TMPDIR:-/tmp}/thv-test-apt.lock"
		flock 9
		"${before_install:-true}"
		if [ -z "${THV_SETUP_RUN:-}" ] || [ ! -e "$THV_SETUP_RUN/apt-updated" ]; then
			as_root apt-get update -q >&2
			[ -z "${THV_SETUP_RUN:-}" ] || touch "$THV_SETUP_RUN/apt-updated"
		fi
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@" >&2 9>&-
	)
}

# install_idle PACKAGE... installs packages, and does not start their services: the tests
# start servers of their own.
install_idle() {
	before_install=without_services install_packages "$@"
}

# without_services keeps invoke-rc.d from starting services until this shell ends: it starts
# none when this program exits with 101 (Debian policy,
# /usr/share/doc/init-system-helpers/README.policy-rc.d).
without_services() {
	local policy=/usr/sbin/policy-rc.d
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
		trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
	fi
}

# timed NAME COMMAND... runs it, and appends its duration in seconds and its name
# to the file THV_TIMES, if that is set.
timed() {
	local name=$1 began=$EPOCHREALTIME status=0
	shift
	"$@" || status=$?
	if [ -n "${THV_TIMES:-}" ]; then
		awk -v a="$began" -v b="$EPOCHREALTIME" -v name="$name" 'BEGIN { printf "%.1f\t%s\n", b - a, name }' >>"$THV_TIMES"
	fi
	return "$status"
}

# answers SOCKET asks whether a container engine answers there. Its client alone
# proves nothing, and may be missing.
answers() {
	as_root curl -fsS --max-time 5 --unix-socket "$1" http://engine/_ping >/dev/null 2>&1
}

# ours FILE PROGRAM is the process that a script noted in the file when it started
# the program, while it still is that program.
ours() {
	local pid
	pid=$(as_root cat "$1" 2>/dev/null) || return 1
	[ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] && echo "$pid"
}

# end PID PROGRAM LOG ends the process, and waits for that.
end() {
	as_root kill "$1"
	for _ in $(seq 150); do
		[ -d "/proc/$1" ] || return 0
		sleep 0.1
	done
	echo "$2 ($1) does not end; its log is $3" >&2
	return 1
}

# npm_install PINS CACHE installs into CACHE what PINS/package-lock.json names. The
# machine's own Node.js only installs: an older one is good enough for that. With
# --prefix, npm would not read the machine's own settings, such as a cafile.
npm_install() {
	mkdir -p "$2"
	cp "$1/package.json" "$1/package-lock.json" "$2/"
	(cd "$2" && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error)
}

# link_node CACHE makes the Node.js that is among the packages CACHE/node.
link_node() {
	local node
	case $(uname -m) in
	x86_64) node=linux-x64 ;;
	aarch64 | arm64) node=linux-arm64 ;;
	*) echo "no Node.js for $(uname -m) is pinned in $1/package.json" >&2; return 1 ;;
	esac
	ln -sfn "node_modules/node-$node/bin/node" "$1/node"
	"$1/node" --version
}
