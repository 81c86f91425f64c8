// The steps of the corners, for a client of either TypeScript SDK.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.env.CLIENTS_DIR + "/package.json");

// load imports a module of the SDK as it was installed.
export const load = (path) => import(pathToFileURL(require.resolve(path)));

export const [url, kind, version, key] = process.argv.slice(2);
export const stateless = version >= "2026-07-28";
export const capabilities = { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } };

const patience = 15_000;

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

// What the client answers, and what it hears, by method.
export const requests = {
  "sampling/createMessage": async ({ params }) => ({
    role: "assistant", model: "none", content: { type: "text", text: `re: ${params.messages[0].content.text}` },
  }),
  "elicitation/create": async ({ params }) =>
    params.message === "who?" ? { action: "accept", content: { name: "Ada" } } : { action: "decline" },
  "roots/list": async () => ({ roots: [{ name: "home", uri: "file:///home/ada" }] }),
};
export const notifications = {
  "notifications/message": ({ params }) => logs.put(`${params.level} ${params.logger} ${params.data}`),
  "notifications/resources/updated": ({ params }) => updated.put(params.uri),
  "notifications/tools/list_changed": () => changed.put("changed"),
};

const say = (step, got) => console.log(JSON.stringify({ step, got }));
const text = (result) => (result.isError ? "error: " : "") + result.content[0].text;

// steps takes a connected client through all of them. What the majors do in their
// own way is in sdk: protocol, the version agreed on; refusal(err), the code and
// message of an error of the server's, or nothing; callTool(params, options);
// logged(params), a call during which the server's log is heard; and watch(uri),
// which subscribes to a resource and to changes of the list, and returns what ends it.
export async function steps(client, sdk) {
  // see prints what was seen in a step, or the error that was seen instead.
  const see = async (step, run) => {
    try {
      say(step, await run());
    } catch (err) {
      const refusal = sdk.refusal(err);
      if (!refusal) throw err;
      say(step, refusal);
    }
  };
  const call = async (name, args = {}, options = undefined) => text(await sdk.callTool({ name, arguments: args }, options));
  const became = async (want) => {
    for (const end = Date.now() + patience; ; await sleep(20)) {
      const got = await call("became", { key });
      if (got === want || Date.now() > end) return got;
    }
  };

  const met = client.getServerVersion();
  say("server", { name: met.name, version: met.version, protocol: sdk.protocol, instructions: client.getInstructions() });

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

  const echoed = await sdk.callTool({ name: "echo", arguments: { n: 9007199254740991, text: 'ä€ "\n\u2028<>&' } });
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
  await sdk.logged({ name: "log", arguments: { key } });
  say("log", await many(3, logs));

  for (const tool of ["sample", "elicit", "roots"]) await see(tool, () => call(tool));

  await see("resource", async () => (await client.readResource({ uri: "corner://fixed" })).contents[0].text);
  await see("missing resource", async () => (await client.readResource({ uri: "corner://kept/missing" })) && "it is there");
  const unwatch = await sdk.watch(`corner://kept/${key}`);
  await call("touch", { key });
  say("updated", await updated.take());
  await call("grow");
  say("list changed", await changed.take());
  await see("unsubscribed", async () => (await unwatch()) && "");

  const abort = new AbortController();
  const ended = call("wait", { key }, { signal: abort.signal }).then(() => false, (err) => /enough/.test(String(err)));
  await became("it is waiting");
  abort.abort(new Error("enough"));
  say("cancelled", { server: await became("it is cancelled"), client: await ended });
  await see("afterwards", () => call("grown"));
}
