// A browser and its person, for the scenarios' OAuth clients.
import { fileURLToPath } from "node:url";

// browse opens a page and fills in the provider's forms as user, until it redirects to an
// address that begins with redirect. It returns the parameters of that address.
export async function browse(page, redirect, user) {
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

// node browse.mjs USER PAGE is a browser of its own: it opens the last address too, which is
// the client's.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [user, page] = process.argv.slice(2);
  const back = new URL(page).searchParams.get("redirect_uri");
  const parameters = await browse(page, back, user);
  const response = await fetch(`${back}?${parameters}`);
  console.error(`the client answered ${response.status}`);
}
