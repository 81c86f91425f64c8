#!/usr/bin/env bash
# Installs a Secret Service and a session bus, gnome-keyring and dbus, for the tests of the
# provider keyring. The tests start both themselves. Does nothing when they are there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

command -v gnome-keyring-daemon >/dev/null && command -v dbus-run-session >/dev/null && exit 0
install_packages gnome-keyring dbus dbus-bin dbus-daemon
command -v gnome-keyring-daemon >/dev/null && command -v dbus-run-session >/dev/null
