// The TypeScript SDK's client against a gateway that requires access tokens, for the
// scenarios: node login.mjs URL USER. The SDK finds the authorization server in the
// gateway's challenge, registers itself, and requests authorization with PKCE; this script
// is the browser and the person. It prints the tools and the result of a call as one line
// of JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { browse } from "./browse.mjs";

const require = createRequire(process.env.CLIENTS_DIR + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { UnauthorizedError } = await load("@modelcontextprotocol/sdk/client/auth.js");

const [url, user] = process.argv.slice(2);
const redirect = "http://127.0.0.1:4/callback";

let code;
const kept = {};
const authProvider = {
  redirectUrl: redirect,
  clientMetadata: {
    client_name: "a client of the tests", redirect_uris: [redirect], application_type: "native",
    grant_types: ["authorization_code", "refresh_token"], response_types: ["code"], token_endpoint_auth_method: "none",
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  codeVerifier: () => kept.verifier,
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  redirectToAuthorization: async (page) => {
    const answer = await browse(page.href, redirect, user);
    code = answer.get("code");
    if (!code) throw new Error(`the provider refused: ${answer}`);
  },
};

const connect = async () => {
  const client = new Client({ name: "typescript", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  try {
    await client.connect(transport);
    return client;
  } catch (err) {
    if (!(err instanceof UnauthorizedError) || !code) throw err;
    await transport.finishAuth(code);
    return undefined;
  }
};
const client = (await connect()) ?? (await connect());
const { tools } = await client.listTools();
const { content } = await client.callTool({ name: "echo", arguments: { text: "logged in" } });
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), text: content[0].text }));
process.exit(0);
