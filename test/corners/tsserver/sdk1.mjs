// The server at the corners made with the TypeScript SDK 1.x, the way most servers
// in the world are: with -http an Express app, where each session has an McpServer of
// its own; it prints the address of streamable HTTP, or with -sse that of HTTP+SSE. Else
// it speaks stdio.
//
// What its tools do is said in test/corners/server. It asks and logs without saying
// which request that is about, as the SDK makes it easy to: over HTTP all of it goes
// out on the session's own stream (GET), and is lost where nobody holds that open.
// Only progress goes the way of its request.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.env.CLIENTS_DIR + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const { McpServer, ResourceTemplate } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { completable } = await load("@modelcontextprotocol/sdk/server/completable.js");
const { ErrorCode, McpError, SubscribeRequestSchema, UnsubscribeRequestSchema, isInitializeRequest } =
  await load("@modelcontextprotocol/sdk/types.js");
const { z } = await load("zod");

const patience = 60_000;
const http = process.argv.includes("-http");
const watchers = new Map(); // the servers of sessions, by the resource they watch

// notes is what calls leave for others. On stdio it is in files: a client without
// sessions may have several processes.
const file = (name) => join(tmpdir(), "corner-" + name);
const notes = http ? new Map() : {
  get: (name) => existsSync(file(name)) ? readFileSync(file(name), "utf8") : undefined,
  set: (name, note) => writeFileSync(file(name), note),
};
const text = (said) => ({ content: [{ type: "text", text: said }] });

// read gives what a resource holds.
function read(uri) {
  if (uri.href.endsWith("/missing")) throw new McpError(ErrorCode.InvalidParams, "Resource not found");
  return { contents: [{ uri: uri.href, mimeType: "text/plain", text: `what ${uri.href} holds` }] };
}

// newServer makes the server of one session. version tells which the client asked
// for: the SDK knows, but does not say.
function newServer(version) {
  const server = new McpServer({ name: "corners", version: "1.2.3" }, {
    instructions: "Ask for anything.",
    capabilities: { logging: {}, resources: { subscribe: true } },
  });
  const tool = (name, inputSchema, run) => server.registerTool(name, { description: "the tool " + name, inputSchema }, run);
  const keyed = { key: z.string() };

  tool("became", keyed, ({ key }) => text("it is " + notes.get("became " + key)));
  const echoed = { text: z.string().optional(), n: z.number().int().optional() };
  server.registerTool("echo", {
    title: "Echo", description: "says it again: ä €", inputSchema: echoed, outputSchema: echoed, annotations: { readOnlyHint: true },
  }, (args) => ({ ...text(JSON.stringify(args)), structuredContent: args }));
  tool("elicit", {}, async () => {
    const answer = await server.server.elicitInput({
      message: "who?", requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
    });
    return text(`${answer.action} ${answer.content?.name}`);
  });
  tool("enough", keyed, ({ key }) => { notes.set("heard " + key, "done"); return text("enough"); });
  tool("fail", {}, () => { throw new Error("it failed, as asked"); });
  // It says that its tools have changed, to the session that this is called in.
  tool("grow", {}, () => { grown.update({ enabled: true }); return text("growing"); });
  const grown = tool("grown", {}, () => text("yes"));
  tool("log", keyed, async ({ key }, extra) => {
    for (const level of ["debug", "info", "warning", "error"]) {
      await server.sendLoggingMessage({ level, logger: "corner", data: key }, extra.sessionId);
    }
    return text("logged");
  });
  tool("progress", keyed, async ({ key }, extra) => {
    for (let progress = 1; progress <= 5; progress++) {
      await extra.sendNotification({
        method: "notifications/progress",
        params: { progressToken: extra._meta?.progressToken, progress, total: 5, message: `step ${progress}` },
      });
    }
    const heard = () => notes.get("heard " + key);
    for (const end = Date.now() + patience; !heard() && Date.now() < end; await sleep(10));
    return text(heard() ?? "nobody has heard enough");
  });
  tool("region", { region: z.string().optional().meta({ "x-mcp-header": "Region" }) }, (args) => text(JSON.stringify(args)));
  tool("roots", {}, async () => text((await server.server.listRoots()).roots.map((root) => `${root.name} ${root.uri}\n`).join("")));
  tool("sample", {}, async () => {
    const answer = await server.server.createMessage({ messages: [{ role: "user", content: { type: "text", text: "hello?" } }], maxTokens: 10 });
    return text(`${answer.role} ${answer.model}: ${answer.content.text}`);
  });
  tool("spoken", {}, () => text(version()));
  tool("touch", keyed, async ({ key }) => {
    const uri = "corner://kept/" + key;
    for (const watcher of http ? watchers.get(uri) ?? [] : [server.server]) await watcher.sendResourceUpdated({ uri });
    return text("touched");
  });
  tool("wait", keyed, async ({ key }, extra) => {
    notes.set("became " + key, "waiting");
    await sleep(patience, undefined, { signal: extra.signal }).catch((err) => { notes.set("became " + key, "cancelled"); throw err; });
    notes.set("became " + key, "never cancelled");
    return text("waited");
  });

  server.registerResource("fixed", "corner://fixed", { mimeType: "text/plain" }, read);
  server.registerResource("kept", new ResourceTemplate("corner://kept/{key}", { list: undefined }), { mimeType: "text/plain" }, read);
  server.server.setRequestHandler(SubscribeRequestSchema, ({ params: { uri } }) => {
    if (!watchers.has(uri)) watchers.set(uri, new Set());
    watchers.get(uri).add(server.server);
    return {};
  });
  server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params: { uri } }) => {
    watchers.get(uri)?.delete(server.server);
    return {};
  });
  server.server.onclose = () => watchers.forEach((watching) => watching.delete(server.server));

  const name = completable(z.string(), (value) => [value + "da", value + "lan"]);
  server.registerPrompt("greet", { description: "greets", argsSchema: { name } }, ({ name }) =>
    ({ messages: [{ role: "user", content: { type: "text", text: "Hello, " + name } }] }));
  return server;
}

// connect has a server of its own serve a transport.
async function connect(transport) {
  let version;
  await newServer(() => version).connect(transport);
  const onmessage = transport.onmessage;
  transport.onmessage = (message, extra) => {
    if (message.method === "initialize") version = message.params.protocolVersion;
    onmessage(message, extra);
  };
  return transport;
}

if (!http) {
  const { StdioServerTransport } = await load("@modelcontextprotocol/sdk/server/stdio.js");
  await connect(new StdioServerTransport());
} else {
  const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const { SSEServerTransport } = await load("@modelcontextprotocol/sdk/server/sse.js");
  const { createMcpExpressApp } = await load("@modelcontextprotocol/sdk/server/express.js");
  const transports = new Map(); // by session
  const app = createMcpExpressApp();
  const refuse = (res, status, code, message) => res.status(status).json({ jsonrpc: "2.0", error: { code, message }, id: null });
  app.all("/mcp", async (req, res) => {
    const id = req.headers["mcp-session-id"];
    let transport = transports.get(id);
    if (id && !transport) return refuse(res, 404, -32001, "Session not found");
    if (!id && !isInitializeRequest(req.body)) return refuse(res, 400, -32000, "Bad Request: No valid session ID provided");
    transport ??= await connect(new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => { transports.set(id, transport); },
      onsessionclosed: (id) => { transports.delete(id); },
    }));
    await transport.handleRequest(req, res, req.body);
  });
  app.get("/sse", async (req, res) => {
    const transport = new SSEServerTransport("/messages", res);
    transports.set(transport.sessionId, transport);
    res.on("close", () => transports.delete(transport.sessionId));
    await connect(transport);
  });
  app.post("/messages", async (req, res) => {
    const transport = transports.get(req.query.sessionId);
    if (!transport) return res.status(400).send("No transport found for sessionId");
    await transport.handlePostMessage(req, res, req.body);
  });
  const path = process.argv.includes("-sse") ? "/sse" : "/mcp";
  const listener = app.listen(0, "127.0.0.1", () => console.log(`127.0.0.1:${listener.address().port}${path}`));
}
