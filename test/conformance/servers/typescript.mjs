// An everything server on the TypeScript SDK 2, for the official conformance
// suite. The SDK's own one is only in its repository, not on npm.
//
//	node typescript.mjs PORT|stdio both|session|stateless
//
// serves clients of both eras, or of one, at http://localhost:PORT/mcp or on
// standard input and output.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  hostHeaderValidationResponse,
  isLegacyRequest,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  originValidationResponse,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio';

import { everything, watched } from './everything.mjs';

// A server that belongs to one client notifies it of changes itself.
const own = {
  tools: (server) => server.sendToolListChanged(),
  prompts: (server) => server.sendPromptListChanged(),
};

// The stateless era over HTTP: a server for each request. Notifications of changes go
// through the handler, which holds the subscriptions.
const shared = { tools: () => modern.notify.toolsChanged(), prompts: () => modern.notify.promptsChanged() };
const modern = createMcpHandler(() => everything(shared, new Set()), { legacy: 'reject' });

// The session era over HTTP: a server for each session.
const sessions = new Map();

async function open(request) {
  const subscribed = new Set();
  const server = everything(own, subscribed);
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => void sessions.set(id, { server, transport, subscribed }),
    onsessionclosed: (id) => void sessions.delete(id),
    eventStore: events(),
    retryInterval: 50,
  });
  await server.connect(transport);
  return transport.handleRequest(request); // which rejects all but an initialize
}

// events stores the messages of a session, for clients that resume a stream.
function events() {
  const sent = [];
  return {
    async storeEvent(stream, message) {
      return String(sent.push({ stream, message }));
    },
    async getStreamIdForEventId(id) {
      return sent[Number(id) - 1]?.stream;
    },
    async replayEventsAfter(id, { send }) {
      const { stream } = sent[Number(id) - 1];
      for (let i = Number(id); i < sent.length; i++) {
        if (sent[i].stream === stream) await send(String(i + 1), sent[i].message);
      }
      return stream;
    },
  };
}

async function ofSession(request) {
  const id = request.headers.get('mcp-session-id');
  if (id === null) return open(request);
  const session = sessions.get(id);
  if (session) return session.transport.handleRequest(request);
  const error = { code: -32001, message: 'Session not found' };
  return Response.json({ jsonrpc: '2.0', error, id: null }, { status: 404 });
}

function serveHTTP(port, eras) {
  const serves = {
    both: async (request) => ((await isLegacyRequest(request)) ? ofSession(request) : modern.fetch(request)),
    session: ofSession,
    stateless: (request) => modern.fetch(request),
  }[eras];
  const fetch = async (request) =>
    hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
    originValidationResponse(request, localhostAllowedOrigins()) ??
    (new URL(request.url).pathname === '/mcp' ? serves(request) : new Response('not found\n', { status: 404 }));
  createServer(toNodeHandler({ fetch })).listen(port, '127.0.0.1');
}

// On standard input and output there is one client, and so one session.
async function serveStandardIO(eras) {
  const subscribed = new Set();
  const make = (client) => {
    if (client?.era === 'modern') subscribed.add(watched); // the SDK holds its subscriptions
    const server = everything(own, subscribed);
    sessions.set('stdio', { server, subscribed });
    return server;
  };
  if (eras === 'session') await make().connect(new StdioServerTransport());
  else serveStdio(make, { legacy: eras === 'both' ? 'serve' : 'reject' });
}

const [place, eras] = process.argv.slice(2);
if (!place || !['both', 'session', 'stateless'].includes(eras)) {
  console.error('usage: node typescript.mjs PORT|stdio both|session|stateless');
  process.exit(2);
}
if (place === 'stdio') await serveStandardIO(eras);
else serveHTTP(Number(place), eras);

setInterval(() => {
  modern.notify.resourceUpdated(watched);
  for (const { server, subscribed } of sessions.values()) {
    if (subscribed.has(watched)) server.server.sendResourceUpdated({ uri: watched }).catch(console.error);
  }
}, 3000).unref();
