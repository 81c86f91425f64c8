#!/usr/bin/env bash
# Builds what the tests need of Kubernetes from its module, at the version of
# test/kube/module/go.mod, and installs Debian's etcd without its service, as root or with
# sudo. The programs go to ~/.cache/toolhaven (or $THV_KUBERNETES), in a folder by version,
# which all checkouts share: six minutes of a processor the first time.
# Prints the folder. Does nothing when all is there.
#   kubernetes.sh [PROGRAM...]    default kube-apiserver kubectl
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup/lib.sh
[ $# -gt 0 ] || set -- kube-apiserver kubectl

version=$(awk '$1 == "require" && $2 == "k8s.io/kubernetes" { print $3 }' test/kube/module/go.mod)
cache=${THV_KUBERNETES:-${XDG_CACHE_HOME:-$HOME/.cache}/toolhaven}/kubernetes-$version

if ! command -v etcd >/dev/null; then
	install_idle etcd-server
fi

mkdir -p "$cache"
exec 8>"$cache/.lock"
flock 8
minor=${version#v1.} minor=${minor%%.*}
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor -X $package.gitTreeState=clean"
done
for program; do
	[ ! -x "$cache/$program" ] || continue
	echo "building $program $version for the tests into $cache" >&2
	# Started from go.mod's folder: it is a module of its own.
	(cd test/kube/module && CGO_ENABLED=0 GOFLAGS='' GOWORK=off nice -n 5 \
		go build -mod=readonly -trimpath -ldflags "$flags" -o "$cache/.$program.new" "k8s.io/kubernetes/cmd/$program" >&2)
	mv "$cache/.$program.new" "$cache/$program"
done
echo "$cache"
