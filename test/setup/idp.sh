#!/usr/bin/env bash
# Installs the identity provider that the tests use, npm's oidc-provider at the
# version of test/idp/package-lock.json, into test/.cache/idp. It runs on the
# Node.js of clients.sh. Does nothing when it is there already.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.."
cache=test/.cache/idp

[ -x test/.cache/clients/node ] || test/setup/clients.sh
if [ -f "$cache/.installed" ] && cmp -s test/idp/package-lock.json "$cache/.installed"; then
	exit 0
fi
echo "installing the identity provider for the tests into $cache"
npm_install test/idp "$cache"
cp test/idp/package-lock.json "$cache/.installed"
