// The TypeScript SDK 2.x in the steps of the corners:
//
//	node typescript2.mjs URL streamable|sse VERSION KEY
//
// AUTO=1 in the environment has it find out the server's era by itself; else it
// speaks VERSION and no other.
import { capabilities, kind, load, notifications, requests, stateless, steps, url, version } from "./corner.mjs";

const {
  Client, ProtocolError, StreamableHTTPClientTransport, SSEClientTransport, LOG_LEVEL_META_KEY,
} = await load("@modelcontextprotocol/client");

const client = new Client({ name: "typescript2", version: "1" }, {
  capabilities,
  versionNegotiation: { mode: process.env.AUTO ? "auto" : stateless ? { pin: version } : "legacy" },
  ...(stateless ? {} : { supportedProtocolVersions: [version] }),
});
for (const method in requests) client.setRequestHandler(method, requests[method]);
for (const method in notifications) client.setNotificationHandler(method, notifications[method]);

const transport = kind === "sse" ? new SSEClientTransport(new URL(url)) : new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
await steps(client, {
  protocol: client.getNegotiatedProtocolVersion(),
  callTool: (params, options) => client.callTool(params, options),
  refusal: (err) => err instanceof ProtocolError && { code: err.code, message: err.message },
  async logged(params) {
    if (stateless) return client.callTool({ ...params, _meta: { [LOG_LEVEL_META_KEY]: "info" } });
    await client.setLoggingLevel("info");
    await client.callTool(params);
  },
  async watch(uri) {
    if (!stateless) {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    }
    const stream = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
    return async () => (await stream.close()) ?? true;
  },
});
if (kind !== "sse" && !stateless) await transport.terminateSession();
await client.close();
process.exit(0);
