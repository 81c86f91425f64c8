// Gives the user who runs the server a name and a home, because programs that
// ask who they are fail for a number without one. Run as `node user.cjs UID`.
'use strict';
const fs = require('fs');

const id = process.argv[2];

function add(path, line) {
  const text = fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : '';
  if (text.split('\n').some((l) => l.split(':')[2] === id)) return;
  fs.writeFileSync(path, text + (text === '' || text.endsWith('\n') ? '' : '\n') + line + '\n');
}

add('/etc/passwd', `app:x:${id}:${id}:app:/app:/sbin/nologin`);
add('/etc/group', `app:x:${id}:`);
