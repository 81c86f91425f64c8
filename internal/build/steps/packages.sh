# Installs packages of the image's distribution, named as arguments, with the
# package manager it has, and removes what only the build needs.
set -eu
if [ -x /usr/bin/apt-get ]; then
	export DEBIAN_FRONTEND=noninteractive
	trust="-oAcquire::https::CAInfo=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}"
	/usr/bin/apt-get "$trust" update -q
	/usr/bin/apt-get "$trust" install -qy --no-install-recommends -- "$@"
	rm -rf /var/lib/apt/lists /var/cache/apt/archives
elif [ -x /sbin/apk ]; then
	/sbin/apk add --no-cache "$@"
else
	echo "thv: the base image has neither apt-get nor apk, so no packages can be added to it" >&2
	exit 1
fi
rm -rf /thv
