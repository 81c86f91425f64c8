// The TypeScript SDK 1.x in the steps of the corners:
//
//	node typescript1.mjs URL streamable|sse VERSION KEY
//
// It speaks its newest version with sessions and has no way to be told another,
// so VERSION is only what the test expects.
import { capabilities, kind, load, notifications, requests, steps, url } from "./corner.mjs";

const sdk = "@modelcontextprotocol/sdk/";
const { Client } = await load(sdk + "client/index.js");
const { StreamableHTTPClientTransport } = await load(sdk + "client/streamableHttp.js");
const { SSEClientTransport } = await load(sdk + "client/sse.js");
const types = await load(sdk + "types.js");

const client = new Client({ name: "typescript1", version: "1" }, { capabilities });
for (const schema of [types.CreateMessageRequestSchema, types.ElicitRequestSchema, types.ListRootsRequestSchema])
  client.setRequestHandler(schema, requests[schema.shape.method.value]);
for (const schema of [
  types.LoggingMessageNotificationSchema, types.ResourceUpdatedNotificationSchema, types.ToolListChangedNotificationSchema,
]) client.setNotificationHandler(schema, notifications[schema.shape.method.value]);

const transport = kind === "sse" ? new SSEClientTransport(new URL(url)) : new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const callTool = (params, options) => client.callTool(params, undefined, options);
await steps(client, {
  protocol: transport.protocolVersion ?? transport._protocolVersion,
  callTool,
  // This SDK writes the code before the server's words.
  refusal: (err) => err instanceof types.McpError && { code: err.code, message: err.message.replace(`MCP error ${err.code}: `, "") },
  async logged(params) {
    await client.setLoggingLevel("info");
    await callTool(params);
  },
  async watch(uri) {
    await client.subscribeResource({ uri });
    return () => client.unsubscribeResource({ uri });
  },
});
if (kind !== "sse") await transport.terminateSession();
await client.close();
process.exit(0);
