# shellcheck shell=bash
# What the scripts of this folder share; they read it with `.`.

# as_root COMMAND... runs it as root, or with sudo.
as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# install_packages PACKAGE... installs packages of Debian. Standard output stays free
# for what the script says.
install_packages() {
	as_root apt-get update -q >&2
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@" >&2
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
# machine's own Node.js only installs: an older one is good enough for that.
npm_install() {
	mkdir -p "$2"
	cp "$1/package.json" "$1/package-lock.json" "$2/"
	npm ci --prefix "$2" --no-audit --no-fund --ignore-scripts --loglevel=error
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
