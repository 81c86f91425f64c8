// The official suite's role for authorization servers, for the scenarios: node suite.mjs ISSUER
// RESOURCE USER. It registers a client and runs the suite against the issuer; the suite prints
// the page of a login, which a browser opens. It prints the suite's output, and exits with its
// status.
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { browse } from "./browse.mjs";

const [issuer, resource, user] = process.argv.slice(2);
const port = await new Promise((resolve) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});
const redirect = `http://127.0.0.1:${port}/callback`;
const registered = await fetch(`${issuer}/oauth/register`, {
  method: "POST", headers: { "content-type": "application/json" },
  body: JSON.stringify({ client_name: "The official suite", redirect_uris: [redirect], token_endpoint_auth_method: "none" }),
});
if (registered.status !== 201) throw new Error(`the registration: ${registered.status} ${await registered.text()}`);
const { client_id } = await registered.json();
const suite = spawn(process.execPath, [
  join(process.env.CONFORMANCE_DIR, "node_modules/@modelcontextprotocol/conformance/dist/index.js"), "authorization",
  "--url", issuer, "--client-id", client_id, "--resource", resource, "--port", port,
], { stdio: ["ignore", "pipe", "inherit"] });
let output = "";
let opened = false;
suite.stdout.setEncoding("utf8").on("data", async (text) => {
  process.stdout.write(text);
  output += text;
  const page = /^http\S+response_type=code\S*$/m.exec(output);
  if (!page || opened) return;
  opened = true;
  try {
    await fetch(`${redirect}?${await browse(page[0], redirect, user)}`);
  } catch (err) {
    console.error(err);
    suite.kill();
  }
});
suite.on("close", (code) => { process.exitCode = code ?? 1; });
