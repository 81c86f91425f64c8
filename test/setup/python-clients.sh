#!/usr/bin/env bash
# Installs the Python SDK in both of its major versions, each in a virtual
# environment below test/.cache/python-clients, at the hashes of
# test/clients/python-*.txt: 1.x speaks the versions with sessions, 2.x all. Does
# nothing when they are there already.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.."
cache=test/.cache/python-clients

# A copied environment would name another Python, so its version counts too.
stamp() { cat test/setup/python-clients.sh test/clients/python-*.txt; python3 --version; }
stamp=$(stamp | sha256sum)
if [ "$(cat "$cache/.installed" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi
python3 -c 'import venv, ensurepip' 2>/dev/null || install_packages python3-venv
echo "installing the Python SDK for the tests into $cache"
for major in 1 2; do
	rm -rf "${cache:?}/$major"
	python3 -m venv "$cache/$major"
	"$cache/$major/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary :all: --require-hashes -r "test/clients/python-$major.txt"
	"$cache/$major/bin/python" -c 'import importlib.metadata as m; print("mcp", m.version("mcp"))'
done
echo "$stamp" >"$cache/.installed"
