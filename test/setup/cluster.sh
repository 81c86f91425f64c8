#!/usr/bin/env bash
# Installs what `make cluster-test` needs, as root or with sudo: all programs of Kubernetes
# (kubernetes.sh) and CoreDNS, built from their modules, Debian's containerd with its network
# plugins, the identity provider and Redis. Nothing is started. Does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/setup/lib.sh

for program in ip:iproute2 unshare:util-linux iptables:iptables mount:mount; do
	command -v "${program%:*}" >/dev/null || install_packages "${program#*:}"
done
command -v containerd >/dev/null && command -v runc >/dev/null || install_idle containerd runc
[ -x /usr/lib/cni/bridge ] || install_packages containernetworking-plugins
test/setup/idp.sh
test/setup/redis.sh
cache=$(test/setup/kubernetes.sh kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy)

version=$(awk '$1 == "require" && $2 == "github.com/coredns/coredns" { print $3 }' test/cluster/coredns/go.mod)
coredns=$(dirname "$cache")/coredns-$version
mkdir -p "$coredns"
exec 8>"$coredns/.lock"
flock 8
if [ ! -x "$coredns/coredns" ]; then
	echo "building CoreDNS $version for the tests into $coredns" >&2
	# Started from go.mod's folder: it is a module of its own.
	(cd test/cluster/coredns && CGO_ENABLED=0 GOFLAGS='' GOWORK=off nice -n 5 \
		go build -mod=readonly -trimpath -ldflags '-s -w' -o "$coredns/.new" .)
	mv "$coredns/.new" "$coredns/coredns"
fi
