// OAuth clients of other makers against a gateway with an authorization server of its own,
// for the scenarios: node oauth.mjs LIBRARY URL USER [keep]. Each discovers the authorization server
// from the gateway's metadata (RFC 9728, RFC 8414), registers (RFC 7591), logs in with PKCE
// for the gateway's resource (RFC 8707), and refreshes. Then the TypeScript SDK calls a tool
// with the last token, and the library revokes the grant (RFC 7009), unless that is to be
// kept. It prints one line of JSON: the tools, the result, whether the refreshed tokens were
// others, whether the revoked refresh token was refused, and the access token.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { browse } from "./browse.mjs";

const require = createRequire(process.env.CLIENTS_DIR + "/package.json");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");

const [library, url, user, keep] = process.argv.slice(2);
const redirect = "http://127.0.0.1:4/callback";
const metadata = {
  client_name: `${library} of the tests`, redirect_uris: [redirect], application_type: "native",
  grant_types: ["authorization_code", "refresh_token"], response_types: ["code"], token_endpoint_auth_method: "none",
};
const scope = "openid offline_access";

// Each returns the token responses of a login and of a refresh, and functions that refresh and
// revoke.
const libraries = {
  async oauth4webapi() {
    const oauth = await load("oauth4webapi");
    const http = { [oauth.allowInsecureRequests]: true };
    const resource = new URL(url);
    const place = await oauth.resourceDiscoveryRequest(resource, http);
    const described = await oauth.processResourceDiscoveryResponse(resource, place);
    const issuer = new URL(described.authorization_servers[0]);
    const as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { ...http, algorithm: "oauth2" }));
    const client = await oauth.processDynamicClientRegistrationResponse(await oauth.dynamicClientRegistrationRequest(as, metadata, http));
    const verifier = oauth.generateRandomCodeVerifier();
    const state = oauth.generateRandomState();
    const page = new URL(as.authorization_endpoint);
    page.search = new URLSearchParams({
      client_id: client.client_id, redirect_uri: redirect, response_type: "code", scope, state, resource: described.resource,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
    });
    const answer = oauth.validateAuthResponse(as, client, await browse(page.href, redirect, user), state);
    const none = oauth.None();
    const additionalParameters = { resource: described.resource };
    const response = await oauth.authorizationCodeGrantRequest(as, client, none, answer, redirect, verifier, { ...http, additionalParameters });
    const first = await oauth.processAuthorizationCodeResponse(as, client, response);
    const refresh = async (token) =>
      oauth.processRefreshTokenResponse(as, client, await oauth.refreshTokenGrantRequest(as, client, none, token, { ...http, additionalParameters }));
    const revoke = async (token) => oauth.processRevocationResponse(await oauth.revocationRequest(as, client, none, token, http));
    return { first, refresh, revoke };
  },

  async "openid-client"() {
    const oidc = await load("openid-client");
    const described = await (await fetch(new URL("/.well-known/oauth-protected-resource" + new URL(url).pathname, url))).json();
    const config = await oidc.dynamicClientRegistration(new URL(described.authorization_servers[0]), metadata, oidc.None(), {
      algorithm: "oauth2", execute: [oidc.allowInsecureRequests],
    });
    const verifier = oidc.randomPKCECodeVerifier();
    const state = oidc.randomState();
    const page = oidc.buildAuthorizationUrl(config, {
      redirect_uri: redirect, scope, state, resource: described.resource,
      code_challenge: await oidc.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
    });
    const answer = await browse(page.href, redirect, user);
    const first = await oidc.authorizationCodeGrant(config, new URL(`${redirect}?${answer}`),
      { pkceCodeVerifier: verifier, expectedState: state }, { resource: described.resource });
    return {
      first,
      refresh: (token) => oidc.refreshTokenGrant(config, token, { resource: described.resource }),
      revoke: (token) => oidc.tokenRevocation(config, token),
    };
  },
};

const refused = async (request) => {
  try {
    await request;
    return false;
  } catch (err) {
    if (err.error !== "invalid_grant") throw err;
    return true;
  }
};

const { first, refresh, revoke } = await libraries[library]();
const second = await refresh(first.refresh_token);
const client = new Client({ name: library, version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { authorization: `Bearer ${second.access_token}` } },
}));
const { tools } = await client.listTools();
const { content } = await client.callTool({ name: "echo", arguments: { text: "logged in" } });
if (!keep) await revoke(second.refresh_token);
console.log(JSON.stringify({
  tools: tools.map((tool) => tool.name), text: content[0].text, scope: first.scope,
  rotated: second.refresh_token !== first.refresh_token && second.access_token !== first.access_token,
  revoked: keep ? undefined : await refused(refresh(second.refresh_token)), token: second.access_token,
}));
process.exit(0);
