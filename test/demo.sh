#!/usr/bin/env bash
# The main job, from nothing: a real MCP server, written by others, running in a
# container behind the gateway, used, and removed again. It needs the Go module
# proxy and no container registry, and leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/.."

name=demo
package=go://github.com/modelcontextprotocol/go-sdk/examples/server/everything@v1.8.0

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
show() { printf '\033[1m$ %s\033[0m\n' "$*"; "$@"; }
[ -t 1 ] || { say() { printf '\n%s\n' "$*"; }; show() { printf '$ %s\n' "$*"; "$@"; }; }

say "1. A container engine"
test/setup/docker.sh

say "2. Build Toolhaven"
make --no-print-directory build
PATH=$PWD/bin:$PATH
if [ "$(id -u)" != 0 ] && [ -z "${DOCKER_HOST:-}${THV_ENGINE:-}" ] && [ -S /var/run/docker.sock ] && [ ! -w /var/run/docker.sock ]; then
	# Docker's socket is root's until you are in the group "docker".
	exec sudo env "PATH=$PATH" "HOME=$HOME" "$0"
fi

# A place of its own, so that nobody's workloads are in the way of the demo.
place=$(mktemp -d)
mkdir -m 700 "$place/run"
export XDG_STATE_HOME=$place/state XDG_RUNTIME_DIR=$place/run XDG_CONFIG_HOME=$place/config
clean_up() {
	thv rm --all >/dev/null 2>&1 || true
	rm -rf "$place"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say "3. Run a tool server: fetched, compiled, packed into an image, started"
show thv run "$package" --name "$name" | tee "$place/out"
url=$(tail -n 1 "$place/out")

say "4. See what it offers, and use it"
show thv mcp tools "$name"
show thv mcp call "$name" greet --arg name=World

say "5. See how it is doing"
show thv status "$name"
show thv logs "$name" | tail -n 4 | cut -c 1-140

say "6. What a client needs to know"
echo "$url"
echo "for example: claude mcp add --transport http $name $url"

say "7. Stop it and remove it"
show thv stop "$name"
show thv rm "$name"
show thv list

say "Done. Nothing is left running."
