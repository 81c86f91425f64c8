// The TypeScript SDK's client against a gateway that requires access tokens, for the
// scenarios: node login.mjs URL USER. The SDK finds the authorization server in the
// gateway's challenge, registers itself, and requests authorization with PKCE; this script
// is the browser and the person. It prints the tools and the result of a call as one line
// of JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.CLIENTS_DIR + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { UnauthorizedError } = await load("@modelcontextprotocol/sdk/client/auth.js");

const [url, user] = process.argv.slice(2);
const redirect = "http://127.0.0.1:4/callback";

// browse opens a page and fills in the provider's forms, until it redirects to the client.
async function browse(page) {
  const cookies = new Map();
  let request = [page, {}];
  for (let step = 0; step < 20; step++) {
    const [address, init] = request;
    const headers = { ...init.headers, cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") };
    const response = await fetch(address, { ...init, headers, redirect: "manual" });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie);
      cookies.set(name, value);
    }
    const location = response.headers.get("location");
    if (location) {
      const next = new URL(location, address);
      if (next.href.startsWith(redirect)) return next.searchParams;
      request = [next.href, {}];
      continue;
    }
    const text = await response.text();
    const action = /action="([^"]+)"/.exec(text);
    const prompt = /name="prompt" value="([^"]+)"/.exec(text);
    const consent = /name="login" value="([^"]+)"/.exec(text);
    const decides = consent && text.includes(`name="decision"`); // the page of thv's authorization server
    if (!action || !prompt && !decides) throw new Error(`a page without a form: ${response.status} ${text.slice(0, 500)}`);
    const body = new URLSearchParams(decides ? { login: consent[1], decision: "allow" } : { prompt: prompt[1], login: user, password: "x" });
    request = [new URL(action[1], address).href, { method: "POST", body }];
  }
  throw new Error("the provider does not come to an end");
}

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
    const answer = await browse(page.href);
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
