#!/usr/bin/env bash
# Installs Debian's Chromium for the tests of the registry's web page, as root or
# with sudo, and makes sure that it starts. The tests start it themselves, on no
# display. Does nothing when it is there and starts.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# The recommended packages are for desktops, and so is the sandbox, which does not work
# for root and in most containers. The tests run without it: the browser loads only what
# they serve.
starts() {
	local profile page
	profile=$(mktemp -d)
	page=$(timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$profile" \
		--dump-dom 'data:text/html,<p>it starts</p>' 2>/dev/null) || true
	rm -rf "$profile"
	[[ $page == *'<p>it starts</p>'* ]]
}

command -v chromium >/dev/null && starts && exit 0
# Chromium brings no font, and a page without one is empty.
install_packages chromium fonts-dejavu-core
if ! command -v chromium >/dev/null; then
	echo "Chromium is installed, and it is not where it should be" >&2
	exit 1
fi
if ! starts; then
	echo "Chromium is installed, and it does not start; this shows the reason:" >&2
	echo "  chromium --headless --no-sandbox --dump-dom about:blank" >&2
	exit 1
fi
