// A whole session of the TypeScript SDK's client against one server, for the
// scenarios: node session.mjs URL [sse] TOKEN; thv:NAME as URL starts "thv connect NAME". It answers the server's questions
// with TOKEN, and prints what it saw as one line of JSON. The server is go-sdk's
// "everything" example.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The SDK is installed beside package.json in the tests' cache, not beside here.
const require = createRequire(process.env.CLIENTS_DIR + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { SSEClientTransport } = await load("@modelcontextprotocol/sdk/client/sse.js");
const {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
} = await load("@modelcontextprotocol/sdk/types.js");

const args = process.argv.slice(2);
const url = new URL(args.shift());
const sse = args[0] === "sse" && Boolean(args.shift());
const token = args.shift();

const client = new Client(
  { name: "typescript", version: "1" },
  { capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } },
);
client.setRequestHandler(CreateMessageRequestSchema, async () => ({
  role: "assistant", model: "none", content: { type: "text", text: `sampled ${token}` },
}));
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { random: `elicited ${token}` } }));
client.setRequestHandler(ListRootsRequestSchema, async () => ({ roots: [{ name: token, uri: `file:///${token}` }] }));
const logged = new Promise((resolve) => client.setNotificationHandler(
  LoggingMessageNotificationSchema, (note) => resolve(note.params.data),
));

const transport = url.protocol === "thv:"
  ? new StdioClientTransport({ command: "thv", args: ["connect", url.pathname], env: process.env })
  : sse ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url);
await client.connect(transport);
const text = async (name, args) => (await client.callTool({ name, arguments: args })).content?.[0]?.text;
const { tools } = await client.listTools();
await client.setLoggingLevel("debug");
const seen = {
  server: client.getServerVersion()?.name,
  tools: tools.map((tool) => tool.name),
  greet: await text("greet", { name: token }),
  sample: await text("sample", {}),
  elicit: await text("elicit (form)", {}),
  roots: await text("roots", {}),
  prompt: (await client.getPrompt({ name: "greet", arguments: { name: token } })).messages[0].content.text,
  resource: (await client.readResource({ uri: "embedded:info" })).contents[0].text,
};
await client.callTool({ name: "log", arguments: {} });
const timeout = new Promise((_, reject) => setTimeout(() => reject(new Error("no log message within 10 s")), 10_000).unref());
seen.log = await Promise.race([logged, timeout]);
console.log(JSON.stringify(seen));
if (transport.terminateSession && !process.env.LEAVE) await transport.terminateSession(); // LEAVE=1 leaves the session open
await client.close();
process.exit(0);
