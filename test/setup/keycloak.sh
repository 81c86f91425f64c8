#!/usr/bin/env bash
# Fetches Keycloak for `make keycloak-test`, at the version below, from Maven Central into
# test/.cache/keycloak, and prepares it for quick starts: 160 MB, and a minute of a processor.
# Java and Maven are Debian's. Does nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup/lib.sh

version=26.4.5
cache=test/.cache/keycloak

if [ "$(cat "$cache/.installed" 2>/dev/null)" = "$version" ]; then
	exit 0
fi
if ! command -v mvn >/dev/null || ! command -v java >/dev/null || ! command -v unzip >/dev/null; then
	install_packages maven openjdk-17-jre-headless unzip
fi
echo "fetching Keycloak $version for the tests into $cache"
rm -rf "$cache"
mkdir -p "$cache"
mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
	-Dartifact="org.keycloak:keycloak-quarkus-dist:$version:zip" -DoutputDirectory="$PWD/$cache"
unzip -q "$cache/keycloak-quarkus-dist-$version.zip" -d "$cache"
rm "$cache/keycloak-quarkus-dist-$version.zip"
mv "$cache/keycloak-$version" "$cache/server"
"$cache/server/bin/kc.sh" build --db=dev-mem
echo "$version" >"$cache/.installed"
