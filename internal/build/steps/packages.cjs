// Installs packages of the image's distribution, named as arguments, with the
// package manager it has, and removes what only the build needs.
'use strict';
const fs = require('fs');
const { spawnSync } = require('child_process');

function run(command, args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  const r = spawnSync(command, args, { stdio: 'inherit', env });
  if (r.error || r.status !== 0) {
    console.error(`thv: ${command} ${args.join(' ')} failed${r.error ? ': ' + r.error.message : ''}`);
    process.exit(1);
  }
}

const packages = process.argv.slice(2);
const ca = process.env.SSL_CERT_FILE;
if (fs.existsSync('/usr/bin/apt-get')) {
  const trust = ca ? ['-o', 'Acquire::https::CAInfo=' + ca] : [];
  run('/usr/bin/apt-get', [...trust, 'update', '-q']);
  run('/usr/bin/apt-get', [...trust, 'install', '-qy', '--no-install-recommends', '--', ...packages]);
  fs.rmSync('/var/lib/apt/lists', { recursive: true, force: true });
  fs.rmSync('/var/cache/apt/archives', { recursive: true, force: true });
} else if (fs.existsSync('/sbin/apk')) {
  run('/sbin/apk', ['add', '--no-cache', ...packages]);
} else {
  console.error('thv: the base image has neither apt-get nor apk, so no packages can be added to it');
  process.exit(1);
}
fs.rmSync('/thv', { recursive: true, force: true });
