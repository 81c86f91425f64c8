// mcp-remote against a gateway with an authorization server of its own, for the scenarios:
// node mcpremote.mjs URL USER. It is started as an editor starts it, and opens the browser
// BROWSER. It prints the tools and the result of a call as one line of JSON.
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.CLIENTS_DIR + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");

const [url, user] = process.argv.slice(2);
const dir = mkdtempSync(join(tmpdir(), "mcp-remote-"));
const browser = join(dir, "xdg-open");
const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
writeFileSync(browser, `#!/bin/sh\nexec ${quote(process.execPath)} ${quote(join(import.meta.dirname, "browse.mjs"))} ${quote(user)} "$1"\n`);
chmodSync(browser, 0o755);

const transport = new StdioClientTransport({
  command: process.execPath,
  args: [join(process.env.CLIENTS_DIR, "node_modules", "mcp-remote", "dist", "proxy.js"), url, "--transport", "http-only", "--allow-http"],
  env: { ...process.env, HOME: dir, MCP_REMOTE_CONFIG_DIR: dir, BROWSER: browser, PATH: `${dir}:${process.env.PATH}` },
});
const client = new Client({ name: "mcp-remote", version: "1" });
await client.connect(transport, { timeout: 100_000 });
const { tools } = await client.listTools();
const { content } = await client.callTool({ name: "echo", arguments: { text: "logged in" } });
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), text: content[0].text }));
await client.close();
process.exit(0);
