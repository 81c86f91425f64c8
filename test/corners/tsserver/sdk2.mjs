// The server at the corners made with the TypeScript SDK 2.x: with -http both eras at
// one endpoint, each request answered in its own, and it prints the address. Else it
// speaks stdio, where the SDK has a process stay in the era of its first request.
//
// What its tools do is said in test/corners/server. They are written once for both
// eras: a tool that asks returns what it asks, and the SDK turns that into requests
// where the client has a session.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.env.CLIENTS_DIR + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const {
  McpServer, ProtocolError, ProtocolErrorCode, ResourceTemplate, WebStandardStreamableHTTPServerTransport,
  completable, createMcpHandler, inputRequired, isInitializeRequest, isLegacyRequest,
} = await load("@modelcontextprotocol/server");
const { z } = await load("zod");

const patience = 60_000;
const heard = new Map(), became = new Map(); // by key
const watchers = new Map(); // the servers of sessions, by the resource they watch

const enough = (key) => {
  if (!heard.has(key)) heard.set(key, Promise.withResolvers());
  return heard.get(key);
};
const text = (said) => ({ content: [{ type: "text", text: said }] });

// read gives what a resource holds.
function read(uri) {
  if (uri.href.endsWith("/missing")) throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Resource not found");
  return { contents: [{ uri: uri.href, mimeType: "text/plain", text: `what ${uri.href} holds` }] };
}

// newServer makes the server of a session, of a process, or of a single request of the
// modern era: then it cannot itself reach those who listen, and events can.
function newServer(era, events) {
  const server = new McpServer({ name: "corners", version: "1.2.3" }, {
    instructions: "Ask for anything.",
    capabilities: { logging: {}, resources: { subscribe: true } },
  });
  const tool = (name, inputSchema, run) => server.registerTool(name, { description: "the tool " + name, inputSchema }, run);
  const nothing = z.object({}), keyed = z.object({ key: z.string() });
  // asking is a tool that asks its client.
  const asking = (name, question, show) => tool(name, nothing, (_, { mcpReq }) => {
    const answer = mcpReq.inputResponses?.q;
    if (!answer) return inputRequired({ inputRequests: { q: question }, requestState: "state of " + name });
    if (mcpReq.requestState() !== "state of " + name) throw new Error(`the state is ${mcpReq.requestState()}`);
    return text(show(answer));
  });

  tool("became", keyed, ({ key }) => text("it is " + became.get(key)));
  const echoed = z.object({ text: z.string().optional(), n: z.number().int().optional() });
  server.registerTool("echo", {
    title: "Echo", description: "says it again: ä €", inputSchema: echoed, outputSchema: echoed, annotations: { readOnlyHint: true },
  }, (args) => ({ ...text(JSON.stringify(args)), structuredContent: args }));
  asking("elicit", inputRequired.elicit({ message: "who?", requestedSchema: z.object({ name: z.string() }) }),
    (answer) => `${answer.action} ${answer.content?.name}`);
  tool("enough", keyed, ({ key }) => { enough(key).resolve("done"); return text("enough"); });
  tool("fail", nothing, () => { throw new Error("it failed, as asked"); });
  tool("grow", nothing, () => {
    if (events) events.toolsChanged();
    else server.sendToolListChanged();
    return text("growing");
  });
  tool("grown", nothing, () => text("yes"));
  tool("log", keyed, async ({ key }, { mcpReq }) => {
    for (const level of ["debug", "info", "warning", "error"]) await mcpReq.log(level, key, "corner");
    return text("logged");
  });
  tool("progress", keyed, async ({ key }, { mcpReq }) => {
    for (let progress = 1; progress <= 5; progress++) {
      await mcpReq.notify({
        method: "notifications/progress",
        params: { progressToken: mcpReq._meta?.progressToken, progress, total: 5, message: `step ${progress}` },
      });
    }
    return text(await Promise.race([enough(key).promise, sleep(patience, "nobody has heard enough")]));
  });
  tool("region", z.object({ region: z.string().optional().meta({ "x-mcp-header": "Region" }) }), (args) => text(JSON.stringify(args)));
  asking("roots", inputRequired.listRoots(), (answer) => answer.roots.map((root) => `${root.name} ${root.uri}\n`).join(""));
  asking("sample", inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text: "hello?" } }], maxTokens: 10 }),
    (answer) => `${answer.role} ${answer.model}: ${[answer.content].flat()[0].text}`);
  tool("spoken", nothing, () => text(server.server.getNegotiatedProtocolVersion()));
  tool("touch", keyed, async ({ key }) => {
    const uri = "corner://kept/" + key;
    if (events) events.resourceUpdated(uri);
    else if (era === "modern") await server.server.sendResourceUpdated({ uri }); // the SDK knows who listens
    else for (const watcher of watchers.get(uri) ?? []) await watcher.sendResourceUpdated({ uri });
    return text("touched");
  });
  tool("wait", keyed, async ({ key }, { mcpReq }) => {
    became.set(key, "waiting");
    await sleep(patience, undefined, { signal: mcpReq.signal }).catch((err) => { became.set(key, "cancelled"); throw err; });
    became.set(key, "never cancelled");
    return text("waited");
  });

  server.registerResource("fixed", "corner://fixed", { mimeType: "text/plain" }, read);
  server.registerResource("kept", new ResourceTemplate("corner://kept/{key}", { list: undefined }), { mimeType: "text/plain" }, read);
  server.server.setRequestHandler("resources/subscribe", ({ params: { uri } }) => {
    if (!watchers.has(uri)) watchers.set(uri, new Set());
    watchers.get(uri).add(server.server);
    return {};
  });
  server.server.setRequestHandler("resources/unsubscribe", ({ params: { uri } }) => {
    watchers.get(uri)?.delete(server.server);
    return {};
  });
  server.server.onclose = () => watchers.forEach((watching) => watching.delete(server.server));

  const name = completable(z.string(), (value) => [value + "da", value + "lan"]);
  server.registerPrompt("greet", { description: "greets", argsSchema: z.object({ name }) }, ({ name }) =>
    ({ messages: [{ role: "user", content: { type: "text", text: "Hello, " + name } }] }));
  return server;
}

if (!process.argv.includes("-http")) {
  const { serveStdio } = await load("@modelcontextprotocol/server/stdio");
  serveStdio(({ era }) => newServer(era));
} else {
  const { serve } = await load("@hono/node-server");
  const stateless = createMcpHandler(({ era }) => newServer(era, stateless.notify), { legacy: "reject" });
  const transports = new Map(); // by session
  const refuse = (status, code, message) => Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status });
  const inSession = async (request) => {
    const id = request.headers.get("mcp-session-id");
    let transport = transports.get(id);
    if (id && !transport) return refuse(404, -32001, "Session not found");
    const parsedBody = request.method === "POST" ? await request.json() : undefined;
    if (!transport) {
      if (!isInitializeRequest(parsedBody)) return refuse(400, -32000, "Bad Request: No valid session ID provided");
      transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => { transports.set(id, transport); },
        onsessionclosed: (id) => { transports.delete(id); },
      });
      await newServer("legacy").connect(transport);
    }
    return transport.handleRequest(request, { parsedBody });
  };
  const fetch = async (request) => (await isLegacyRequest(request)) ? inSession(request) : stateless.fetch(request);
  serve({ fetch, hostname: "127.0.0.1", port: 0 }, ({ port }) => console.log(`127.0.0.1:${port}`));
}
