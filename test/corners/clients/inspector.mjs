// The Inspector's command line in those steps of the corners that it can do:
//
//	node inspector.mjs URL streamable|sse VERSION KEY
//
// It is told an era and takes the newest version of it. Each step is a run of
// its own, because it connects for one request; that is slow, so it does not do
// again what another step shows. test/scenario has it over SSE.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const [url, kind, version, key] = process.argv.slice(2);
const home = await mkdtemp(join(tmpdir(), "inspector")); // it keeps a catalog there
const flags = [
  url, "--transport", kind === "sse" ? "sse" : "http", "--format", "json", "--quiet",
  "--protocol-era", version >= "2026-07-28" ? "modern" : "legacy",
];

async function request(method, ...args) {
  const argv = [`${process.env.CLIENTS_DIR}/node_modules/.bin/mcp-inspector`, "--cli", ...flags, "--method", method, ...args];
  const { stdout } = await promisify(execFile)(process.execPath, argv, { timeout: 30_000, env: { ...process.env, HOME: home } });
  return JSON.parse(stdout).result;
}

const say = (step, got) => console.log(JSON.stringify({ step, got }));

const met = await request("initialize");
say("server", { name: met.serverInfo.name, version: met.serverInfo.version, protocol: met.protocolVersion, instructions: met.instructions });
const { tools } = await request("tools/list");
say("tools", tools.map((tool) => tool.name));
say("tool", tools.find((tool) => tool.name === "echo"));
say("prompt", (await request("prompts/get", "--prompt-name", "greet", "--prompt-args", "name=Ada")).messages[0].content.text);
const echoed = await request("tools/call", "--tool-name", "echo", "--tool-args-json", JSON.stringify({ n: 9007199254740991, text: 'ä€ "\n\u2028<>&' }));
// What a stateless server adds to each result says nothing to a client with a
// session, and thv leaves it in: keys of the protocol's own prefix, to be ignored.
if (version < "2026-07-28") delete echoed._meta?.["io.modelcontextprotocol/serverInfo"];
if (echoed._meta && Object.keys(echoed._meta).length === 0) delete echoed._meta;
say("echo", echoed);
say("structured", echoed.structuredContent);
say("resource", (await request("resources/read", "--uri", "corner://fixed")).contents[0].text);
await rm(home, { recursive: true });
