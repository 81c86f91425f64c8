"""Installs packages of the image's distribution, named as arguments, with the
package manager it has, and removes what only the build needs."""
import os
import shutil
import subprocess
import sys


def run(*command):
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if subprocess.run(command, env=env).returncode != 0:
        sys.exit(f"thv: {' '.join(command)} failed")


packages = sys.argv[1:]
ca = os.environ.get("SSL_CERT_FILE")
if os.path.exists("/usr/bin/apt-get"):
    trust = ["-o", "Acquire::https::CAInfo=" + ca] if ca else []
    run("/usr/bin/apt-get", *trust, "update", "-q")
    run("/usr/bin/apt-get", *trust, "install", "-qy", "--no-install-recommends", "--", *packages)
    shutil.rmtree("/var/lib/apt/lists", ignore_errors=True)
    shutil.rmtree("/var/cache/apt/archives", ignore_errors=True)
elif os.path.exists("/sbin/apk"):
    run("/sbin/apk", "add", "--no-cache", *packages)
else:
    sys.exit("thv: the base image has neither apt-get nor apk, so no packages can be added to it")
shutil.rmtree("/thv", ignore_errors=True)
