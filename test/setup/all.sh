#!/usr/bin/env bash
# Brings a fresh Debian machine with Go to where every test can run: C compiler,
# container engine, third-party clients, base images. Each step does nothing
# when it is done already, so running it again is quick.
set -euo pipefail
here=$(dirname "$0")
"$here/tools.sh"
"$here/docker.sh"
"$here/clients.sh"
"$here/python-clients.sh"
"$here/idp.sh"
"$here/dex.sh"
"$here/postgres.sh"
"$here/chromium.sh"
"$here/conformance.sh"
"$here/../images/all.sh"
