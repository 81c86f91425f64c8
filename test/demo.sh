#!/usr/bin/env bash
# The main job, from nothing: a registry on its embedded database, and from it, by
# its name, a real MCP server, written by others, running in a container behind the
# gateway, used, and removed again. It needs the Go module proxy and no container
# registry, and leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/.."

name=demo
server=com.example/everything

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

# Folders of its own, so that no other workloads interfere with the demo.
place=$(mktemp -d)
mkdir -m 700 "$place/run"
export XDG_STATE_HOME=$place/state XDG_RUNTIME_DIR=$place/run XDG_CONFIG_HOME=$place/config
registry=
clean_up() {
	thv rm --all >/dev/null 2>&1 || true
	[ -z "$registry" ] || kill "$registry" 2>/dev/null || true
	rm -rf "$place"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

say "3. A registry: one program, one small configuration, one database file"
printf 'auth:\n  mode: anonymous # this machine only; docs/registry.md has OAuth\n' >"$place/registry.yaml"
cat >"$place/server.json" <<'JSON'
{
  "name": "com.example/everything",
  "description": "The MCP Go SDK's example with every feature of the protocol",
  "version": "1.8.0",
  "_meta": {
    "io.modelcontextprotocol.registry/publisher-provided": {
      "dev.toolhaven": {"package": "go://github.com/modelcontextprotocol/go-sdk/examples/server/everything@v1.8.0"}
    }
  }
}
JSON
show thv-registry validate --config "$place/registry.yaml"
show thv-registry import "$place/server.json" --config "$place/registry.yaml"
thv-registry serve --config "$place/registry.yaml" --address 127.0.0.1:0 --internal-address 127.0.0.1:0 2>"$place/registry.log" >/dev/null &
registry=$!
address=
for _ in $(seq 100); do
	address=$(sed -n 's/.*"msg":"the registry serves","address":"\([^"]*\)".*/\1/p' "$place/registry.log")
	[ -z "$address" ] || break
	kill -0 "$registry" || { cat "$place/registry.log"; exit 1; }
	sleep 0.1
done
show thv config set registry "http://$address/registry/default"
show thv registry list

say "4. Run a server by its name: fetched, compiled, packed into an image, started"
show thv run "$server" --name "$name" | tee "$place/out"
url=$(tail -n 1 "$place/out")

say "5. See what it offers, and use it"
show thv mcp tools "$name"
show thv mcp call "$name" greet --arg name=World

say "6. See how it is doing"
show thv status "$name"
show thv logs "$name" | tail -n 4 | cut -c 1-140

say "7. What a client needs to know"
echo "$url"
echo "for example: claude mcp add --transport http $name $url"

say "8. Stop it and remove it"
show thv stop "$name"
show thv rm "$name"
show thv list

say "Done. Nothing is left running."
