// The tests' identity provider: npm's oidc-provider, told what to be by the first
// line of JSON on standard input, and to change its keys by the next ones; each
// line is answered by one on standard output. It ends when standard input ends,
// so it never outlives the test. See provider.go for the other side.
import { createServer as createHTTP } from "node:http";
import { createServer as createHTTPS } from "node:https";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The provider is installed in the tests' cache, not beside this file.
const require = createRequire(process.env.IDP_DIR + "/package.json");
const jose = await import(pathToFileURL(require.resolve("jose")));
const { default: Provider } = await import(pathToFileURL(require.resolve("oidc-provider")));

// The package prints notices there; standard output has the answers only.
console.info = console.error;

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
};
const answer = (message) => process.stdout.write(JSON.stringify(message) + "\n");

const options = await next();
const scopes = ["openid", "profile", "email", "offline_access"];

// Tokens, codes and registrations are kept by the package, for all instances in
// the process: they survive a change of keys.
function configure(keys) {
  const provider = new Provider(options.issuer, {
    jwks: { keys },
    clients: options.clients,
    clientDefaults: { id_token_signed_response_alg: options.alg },
    enabledJWA: { idTokenSigningAlgValues: [options.alg], userinfoSigningAlgValues: [options.alg] },
    clientBasedCORS: () => true,
    scopes: [...scopes, ...options.scopes],
    claims: { openid: ["sub"], profile: ["name"], email: ["email"] },
    findAccount: async (ctx, id) => ({
      accountId: id,
      claims: async () => ({ sub: id, name: `Name of ${id}`, email: `${id}@example.com` }),
    }),
    pkce: { required: () => true },
    rotateRefreshToken: true,
    issueRefreshToken: async (ctx, client, code) =>
      client.grantTypeAllowed("refresh_token") && (options.alwaysRefresh || code.scopes.has("offline_access")),
    ttl: { AccessToken: options.ttl, ClientCredentials: options.ttl },
    features: {
      devInteractions: { enabled: true },
      clientCredentials: { enabled: true },
      introspection: {
        enabled: true,
        allowedPolicy: async (ctx, client) => client.clientId === options.introspectionClient,
      },
      revocation: { enabled: true, allowedPolicy: async () => true },
      registration: { enabled: true, initialAccessToken: false },
      rpInitiatedLogout: { enabled: false },
      resourceIndicators: {
        enabled: true,
        defaultResource: async () => options.defaultResource || undefined,
        useGrantedResource: async () => true,
        getResourceServerInfo: async (ctx, resource) => ({
          scope: options.scopes.join(" "),
          audience: resource,
          accessTokenFormat: options.opaque.includes(resource) ? "opaque" : "jwt",
          accessTokenTTL: options.ttl,
          jwt: { sign: { alg: options.alg } },
        }),
      },
    },
  });
  tokenExchange(provider, keys);
  provider.on("server_error", (ctx, err) => console.error(`server error: ${err.stack}`));
  return provider.callback();
}

// tokenExchange adds the grant of RFC 8693, which the package leaves to its users: a JWT of
// this provider becomes one of the same subject for the audience.
function tokenExchange(provider, keys) {
  const grant = "urn:ietf:params:oauth:grant-type:token-exchange";
  const parameters = ["audience", "scope", "subject_token", "subject_token_type", "requested_token_type"];
  provider.registerGrantType(grant, async (ctx) => {
    const refuse = (error, description) => {
      ctx.status = 400;
      ctx.body = { error, error_description: description };
    };
    const given = ctx.oidc.params;
    if (given.subject_token_type !== "urn:ietf:params:oauth:token-type:access_token")
      return refuse("invalid_request", "the subject token is not an access token");
    let subject;
    try {
      const known = jose.createLocalJWKSet({ keys: keys.map(({ d, p, q, dp, dq, qi, ...key }) => key) });
      subject = (await jose.jwtVerify(given.subject_token, known, { issuer: options.issuer })).payload;
    } catch {
      return refuse("invalid_grant", "the subject token is not valid");
    }
    if (given.audience === "refused") return refuse("invalid_target", "no such audience");
    const key = await jose.importJWK(keys[0], options.alg);
    const token = await new jose.SignJWT({ client_id: ctx.oidc.client.clientId, scope: given.scope, exchanged: true })
      .setProtectedHeader({ alg: options.alg, typ: "at+jwt", kid: keys[0].kid })
      .setIssuer(options.issuer).setSubject(subject.sub).setAudience(given.audience)
      .setIssuedAt().setExpirationTime(Math.floor(Date.now() / 1000) + options.ttl).setJti(crypto.randomUUID())
      .sign(key);
    ctx.body = {
      access_token: token, issued_token_type: "urn:ietf:params:oauth:token-type:access_token",
      token_type: "Bearer", expires_in: options.ttl, scope: given.scope,
    };
  }, parameters, []);
}

let handler = (request, response) => response.writeHead(503).end();
const handle = (request, response) => handler(request, response);
const server = options.tls ? createHTTPS({ cert: options.tls.cert, key: options.tls.key }, handle) : createHTTP(handle);
server.on("error", (err) => {
  answer({ error: err.message });
  process.exit(1);
});
await new Promise((resolve) => server.listen(options.port, options.host, resolve));
const { port } = server.address();
const host = options.host.includes(":") ? `[${options.host}]` : options.host;
options.issuer ||= `${options.tls ? "https" : "http"}://${host}:${port}`;

for (let keys = options.keys; keys; keys = (await next())?.keys) {
  try {
    handler = configure(keys);
    answer({ issuer: options.issuer, port });
  } catch (err) {
    answer({ error: err.message });
  }
}
process.exit(0);
