#!/usr/bin/env bash
# thv-test/node:22: thv-test/debian:bookworm with node 22 and npm, both out of
# npm packages. About 45 s. Nothing to do when the tag exists.
. "$(dirname "$0")/need.sh"
tag=thv-test/node:22
if have "$tag"; then exit 0; fi
need npm "it fetches node-linux-* and npm (Debian: apt-get install npm)"
"$(dirname "$0")/debian.sh"

case $(uname -m) in
x86_64) platform=linux-x64 ;;
aarch64) platform=linux-arm64 ;;
*) echo "node.sh: no node package for $(uname -m)" >&2; exit 1 ;;
esac
mkdir "$work/npm" "$work/context"
echo '{"private":true}' >"$work/npm/package.json"
if ! bounded npm --prefix "$work/npm" install --no-audit --no-fund "node-$platform@22" npm@11 >"$work/log" 2>&1; then
	tail -n 20 "$work/log" >&2
	echo "node.sh: npm could not install node-$platform@22 and npm@11" >&2
	exit 1
fi
mv "$work/npm/node_modules/node-$platform/bin/node" "$work/context/node"
mv "$work/npm/node_modules/npm" "$work/context/npm"
cat >"$work/context/Dockerfile" <<'END'
FROM thv-test/debian:bookworm
COPY node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
 && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx \
 && node --version && npm --version
END
build "$tag" "$work/context"
echo "made $tag"
