// Links the executable that an npm package declares to /app/server. Run as
// `node entry.cjs NAME` where NAME is installed in /app/node_modules. The
// declaration is package.json's bin: a text, or names with paths.
'use strict';
const fs = require('fs');
const path = require('path');

function fail(text) {
  console.error('thv: ' + text);
  process.exit(1);
}

const name = process.argv[2];
const dir = path.join('/app/node_modules', name);
const own = name.slice(name.lastIndexOf('/') + 1);
const manifest = JSON.parse(fs.readFileSync(path.join(dir, 'package.json'), 'utf8'));
const bin = typeof manifest.bin === 'string' ? { [own]: manifest.bin } : manifest.bin || {};
const names = Object.keys(bin);
// Names of one file are one candidate.
const files = new Set(names.map((n) => path.join(dir, bin[n])));
let chosen;
if (names.length === 0) fail(`npm package ${name} declares no executable (bin in its package.json), so it cannot be run`);
else if (bin[own] !== undefined) chosen = bin[own];
else if (files.size === 1) chosen = bin[names[0]];
else fail(`npm package ${name} declares several executables and none has its name: ${names.join(', ')}`);

const target = path.join(dir, chosen);
if (!target.startsWith(dir + '/') || !fs.existsSync(target)) fail(`npm package ${name} declares the executable ${chosen}, which it does not hold`);
fs.chmodSync(target, 0o755);
fs.symlinkSync(target, '/app/server');
console.log('thv: entry ' + target);
