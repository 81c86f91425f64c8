// The TypeScript SDK 2.x in the steps of the corners:
//
//	node typescript2.mjs URL streamable|sse VERSION KEY
//
// AUTO=1 in the environment has it find out the server's era by itself; else it
// speaks VERSION and no other.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.env.CLIENTS_DIR + "/package.json");
const {
  Client, ProtocolError, StreamableHTTPClientTransport, SSEClientTransport, LOG_LEVEL_META_KEY,
} = await import(pathToFileURL(require.resolve("@modelcontextprotocol/client")));

const patience = 15_000;
const [url, kind, version, key] = process.argv.slice(2);
const stateless = version >= "2026-07-28";

const say = (step, got) => console.log(JSON.stringify({ step, got }));
// see prints what was seen in a step, or the error that was seen instead.
const see = async (step, run) => {
  try {
    say(step, await run());
  } catch (err) {
    if (!(err instanceof ProtocolError)) throw err;
    say(step, { code: err.code, message: err.message });
  }
};

// queue is what a handler puts in and a step takes out, in order.
function queue() {
  const items = [], takers = [];
  return {
    put: (item) => (takers.length ? takers.shift()(item) : items.push(item)),
    take: () => items.length ? items.shift() : new Promise((resolve) => {
      takers.push(resolve);
      setTimeout(resolve, patience, "nothing came").unref();
    }),
  };
}
const many = async (n, from) => {
  const all = [];
  for (let i = 0; i < n; i++) all.push(await from.take());
  return all;
};

const reported = queue(), logs = queue(), updated = queue(), changed = queue();
const client = new Client({ name: "typescript2", version: "1" }, {
  capabilities: { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } },
  versionNegotiation: { mode: process.env.AUTO ? "auto" : stateless ? { pin: version } : "legacy" },
  ...(stateless ? {} : { supportedProtocolVersions: [version] }),
});
client.setRequestHandler("sampling/createMessage", async ({ params }) => ({
  role: "assistant", model: "none", content: { type: "text", text: `re: ${params.messages[0].content.text}` },
}));
client.setRequestHandler("elicitation/create", async ({ params }) =>
  params.message === "who?" ? { action: "accept", content: { name: "Ada" } } : { action: "decline" });
client.setRequestHandler("roots/list", async () => ({ roots: [{ name: "home", uri: "file:///home/ada" }] }));
client.setNotificationHandler("notifications/message", ({ params }) => logs.put(`${params.level} ${params.logger} ${params.data}`));
client.setNotificationHandler("notifications/resources/updated", ({ params }) => updated.put(params.uri));
client.setNotificationHandler("notifications/tools/list_changed", () => changed.put("changed"));

const transport = kind === "sse" ? new SSEClientTransport(new URL(url)) : new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);

const text = (result) => (result.isError ? "error: " : "") + result.content[0].text;
const call = async (name, args = {}, options = undefined) => text(await client.callTool({ name, arguments: args }, options));
const became = async (want) => {
  for (const end = Date.now() + patience; ; await sleep(20)) {
    const got = await call("became", { key });
    if (got === want || Date.now() > end) return got;
  }
};

const met = client.getServerVersion();
say("server", { name: met.name, version: met.version, protocol: client.getNegotiatedProtocolVersion(), instructions: client.getInstructions() });

const { tools } = await client.listTools();
say("tools", tools.map((tool) => tool.name));
say("tool", tools.find((tool) => tool.name === "echo"));
say("resources", [
  ...(await client.listResources()).resources.map((r) => r.uri),
  ...(await client.listResourceTemplates()).resourceTemplates.map((r) => r.uriTemplate),
]);
await see("prompt", async () => (await client.getPrompt({ name: "greet", arguments: { name: "Ada" } })).messages[0].content.text);
await see("completion", async () =>
  (await client.complete({ ref: { type: "ref/prompt", name: "greet" }, argument: { name: "name", value: "A" } })).completion.values);

const echoed = await client.callTool({ name: "echo", arguments: { n: 9007199254740991, text: 'ä€ "\n\u2028<>&' } });
say("echo", text(echoed));
say("structured", echoed.structuredContent);
await see("region", () => call("region", { region: "eu west ä" }));
await see("spoken", () => call("spoken"));
await see("failing tool", () => call("fail"));
await see("unknown tool", () => call("no such tool"));

const done = call("progress", { key }, { onprogress: (p) => reported.put(`${p.progress}/${p.total} ${p.message}`) });
const heard = await many(5, reported);
await call("enough", { key });
say("progress", [...heard, await done]);
if (!stateless) await client.setLoggingLevel("info");
await client.callTool({ name: "log", arguments: { key }, ...(stateless ? { _meta: { [LOG_LEVEL_META_KEY]: "info" } } : {}) });
say("log", await many(3, logs));

for (const tool of ["sample", "elicit", "roots"]) await see(tool, () => call(tool));

await see("resource", async () => (await client.readResource({ uri: "corner://fixed" })).contents[0].text);
await see("missing resource", async () => (await client.readResource({ uri: "corner://kept/missing" })) && "it is there");
const uri = `corner://kept/${key}`;
const stream = stateless ? await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] }) : await client.subscribeResource({ uri });
await call("touch", { key });
say("updated", await updated.take());
if (!stateless) await see("unsubscribed", async () => (await client.unsubscribeResource({ uri })) && "");
await call("grow");
say("list changed", await changed.take());
if (stateless) await see("unsubscribed", async () => (await stream.close()) ?? "");

const abort = new AbortController();
const ended = call("wait", { key }, { signal: abort.signal }).then(() => false, (err) => /enough/.test(String(err)));
await became("it is waiting");
abort.abort(new Error("enough"));
say("cancelled", { server: await became("it is cancelled"), client: await ended });
await see("afterwards", () => call("grown"));

if (kind !== "sse" && !stateless) await transport.terminateSession();
await client.close();
process.exit(0);
