// The tools, resources and prompts that the official suite requires of a server under
// test, on the TypeScript SDK 2.
//
// Handlers are written once, for the stateless era: a tool that needs input from the
// client returns an input request, and is called again with the response. For a client
// of the session era the SDK sends the input request as a request from the server.

import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  completable,
  createRequestStateCodec,
  fromJsonSchema,
  inputRequired,
  inputResponse,
  McpServer,
  ResourceTemplate,
} from '@modelcontextprotocol/server';
import { z } from 'zod';

// One blue pixel, and a millisecond of silence.
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mNgSFgAAAFkAQGQheQrAAAAAElFTkSuQmCC';
const wav = 'UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==';
export const watched = 'test://watched-resource';

// State that is sent through the client is signed, so that a changed one is rejected.
const state = createRequestStateCodec({ key: randomBytes(32), bind: (ctx) => ctx.mcpReq.method });

const text = (s) => ({ type: 'text', text: s });
const image = { type: 'image', data: png, mimeType: 'image/png' };
const resource = (uri, mimeType, body) => ({ type: 'resource', resource: { uri, mimeType, text: body } });
const result = (...content) => ({ content });

// The input requests that tools return.
const form = (message, properties) =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: 'object', properties, required: Object.keys(properties) },
  });
const askName = () => form('What is your name?', { name: { type: 'string' } });
const askConfirmation = () => form('Please confirm', { ok: { type: 'boolean' } });
const askModel = (prompt, maxTokens) =>
  inputRequired.createMessage({ messages: [{ role: 'user', content: text(prompt) }], maxTokens });

// The responses of the client; undefined if there is none.
const named = (ctx) =>
  acceptedContent(ctx.mcpReq.inputResponses, 'user_name', z.object({ name: z.string().min(1) }))?.name;
const sampled = (ctx, key) => {
  const answer = inputResponse(ctx.mcpReq.inputResponses, key);
  if (answer.kind !== 'sampling') return undefined;
  const blocks = [answer.result.content].flat();
  return blocks.find((block) => block.type === 'text')?.text ?? '(no text)';
};
const roots = (ctx) => {
  const answer = inputResponse(ctx.mcpReq.inputResponses, 'client_roots');
  return answer.kind === 'roots' ? answer.roots : undefined;
};

// everything returns a server. changed notifies clients of a changed list; subscribed
// holds the resources to which a client of the session era has subscribed.
export function everything(changed, subscribed) {
  const server = new McpServer(
    { name: 'toolhaven-typescript-everything', version: '1.0.0' },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
      },
      requestState: { verify: state.verify },
    },
  );
  content(server);
  behaviour(server, changed);
  questions(server);
  rounds(server);
  resources(server);
  prompts(server);
  // The stateless era has no such methods: the SDK rejects them there.
  server.server.setRequestHandler('resources/subscribe', ({ params }) => {
    subscribed.add(params.uri);
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
  return server;
}

// content adds tools that return one kind of content each.
function content(server) {
  const tool = (name, description, answer) => server.registerTool(name, { description }, () => answer);
  tool('test_simple_text', 'Returns text', result(text('This is a simple text response for testing.')));
  tool('test_image_content', 'Returns an image', result(image));
  tool('test_audio_content', 'Returns sound', result({ type: 'audio', data: wav, mimeType: 'audio/wav' }));
  const embedded = resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.');
  tool('test_embedded_resource', 'Returns a resource', result(embedded));
  const mixed = resource('test://mixed-content-resource', 'application/json', '{"test":"data","value":123}');
  tool(
    'test_multiple_content_types',
    'Returns text, an image and a resource',
    result(text('Multiple content types test:'), image, mixed),
  );
  server.registerTool(
    'json_schema_2020_12_tool',
    {
      description: 'Takes arguments of a schema in which much of JSON Schema 2020-12 occurs',
      inputSchema: fromJsonSchema({
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        type: 'object',
        $defs: {
          address: {
            $anchor: 'addressDef',
            type: 'object',
            properties: { street: { type: 'string' }, city: { type: 'string' } },
          },
        },
        properties: {
          name: { type: 'string' },
          address: { $ref: '#/$defs/address' },
          contactMethod: { type: 'string', enum: ['phone', 'email'] },
          phone: { type: 'string' },
          email: { type: 'string' },
        },
        allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
        if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
        then: { required: ['phone'] },
        else: { required: ['email'] },
        additionalProperties: false,
      }),
    },
    (args) => result(text(JSON.stringify(args))),
  );
  server.registerTool(
    'test_x_mcp_header',
    {
      description: 'Has an argument that is repeated in a header',
      inputSchema: fromJsonSchema({
        type: 'object',
        properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer' } },
      }),
    },
    ({ region }) => result(text(`region=${region}`)),
  );
}

// behaviour adds tools that do more than return a result.
function behaviour(server, changed) {
  const tool = (name, description, does) => server.registerTool(name, { description }, does);
  tool('test_error_handling', 'Fails', () => {
    throw new Error('This tool intentionally returns an error for testing');
  });
  tool('test_tool_with_logging', 'Logs three times', async (ctx) => {
    await ctx.mcpReq.log('info', 'Tool execution started');
    await sleep(50);
    await ctx.mcpReq.log('info', 'Tool processing data');
    await sleep(50);
    await ctx.mcpReq.log('info', 'Tool execution completed');
    return result(text('Logged three times'));
  });
  tool('test_logging_tool', 'Logs once, if the client requests log messages', async (ctx) => {
    await ctx.mcpReq.log('info', 'Logged');
    return result(text('Logged, if requested'));
  });
  tool('test_tool_with_progress', 'Reports its progress three times', async (ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        await ctx.mcpReq.notify({
          method: 'notifications/progress',
          params: { progressToken, progress, total: 100 },
        });
      }
      if (progress < 100) await sleep(50);
    }
    return result(text('Done'));
  });
  tool('test_streaming_elicitation', 'Returns an input request, which is no request on the stream', (ctx) =>
    named(ctx) === undefined
      ? inputRequired({ inputRequests: { user_name: askName() } })
      : result(text(`Hello, ${named(ctx)}!`)),
  );
  tool('test_reconnection', 'Closes the stream before it returns a result', async (ctx) => {
    ctx.http?.closeSSE?.();
    await sleep(100);
    return result(text('The client resumed the stream'));
  });
  tool('test_trigger_tool_change', 'Sends a notification that the list of tools changed', () => {
    changed.tools(server);
    return result(text('Sent'));
  });
  tool('test_trigger_prompt_change', 'Sends a notification that the list of prompts changed', () => {
    changed.prompts(server);
    return result(text('Sent'));
  });
}

// questions adds the tools with one input request that the suite of the session era calls.
function questions(server) {
  server.registerTool(
    'test_sampling',
    { description: 'Requests a sampling from the client', inputSchema: z.object({ prompt: z.string() }) },
    ({ prompt }, ctx) => {
      const said = sampled(ctx, 'answer');
      if (said !== undefined) return result(text(`LLM response: ${said}`));
      return inputRequired({ inputRequests: { answer: askModel(prompt, 100) } });
    },
  );
  const ask = (ctx, question) => {
    const answer = inputResponse(ctx.mcpReq.inputResponses, 'answer');
    if (answer.kind !== 'elicit') return inputRequired({ inputRequests: { answer: question } });
    return result(text(`action=${answer.action}, content=${JSON.stringify(answer.content ?? {})}`));
  };
  server.registerTool(
    'test_elicitation',
    { description: 'Requests input from the user', inputSchema: z.object({ message: z.string() }) },
    ({ message }, ctx) => ask(ctx, form(message, { username: { type: 'string' }, email: { type: 'string' } })),
  );
  const optional = (message, properties) =>
    inputRequired.elicit({ message, requestedSchema: { type: 'object', properties } });
  server.registerTool('test_elicitation_sep1034_defaults', { description: 'Requests input with defaults' }, (ctx) =>
    ask(
      ctx,
      optional('Fields with defaults', {
        name: { type: 'string', default: 'John Doe' },
        age: { type: 'integer', default: 30 },
        score: { type: 'number', default: 95.5 },
        status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
        verified: { type: 'boolean', default: true },
      }),
    ),
  );
  const titled = ['First', 'Second', 'Third'].map((title, i) => ({ const: `value${i + 1}`, title }));
  const untitled = ['option1', 'option2', 'option3'];
  server.registerTool('test_elicitation_sep1330_enums', { description: 'Requests input with choices' }, (ctx) =>
    ask(
      ctx,
      optional('Choices', {
        untitledSingle: { type: 'string', enum: untitled },
        titledSingle: { type: 'string', oneOf: titled },
        legacyEnum: {
          type: 'string',
          enum: ['opt1', 'opt2', 'opt3'],
          enumNames: ['Option One', 'Option Two', 'Option Three'],
        },
        untitledMulti: { type: 'array', items: { type: 'string', enum: untitled } },
        titledMulti: { type: 'array', items: { anyOf: titled } },
      }),
    ),
  );
}

// rounds adds the tools whose input requests the suite of the stateless era checks.
function rounds(server) {
  const tool = (name, description, does) =>
    server.registerTool(`test_input_required_result_${name}`, { description }, does);
  // The SDK rejects an input request that the client does not support, with -32021.
  server.registerTool('test_missing_capability', { description: 'Needs a client with a model' }, (ctx) =>
    sampled(ctx, 'answer') === undefined
      ? inputRequired({ inputRequests: { answer: askModel('Are you there?', 10) } })
      : result(text('The client has a model')),
  );
  tool('elicitation', 'Requests a name', (ctx) =>
    named(ctx) === undefined
      ? inputRequired({ inputRequests: { user_name: askName() } })
      : result(text(`Hello, ${named(ctx)}!`)),
  );
  tool('sampling', 'Requests a sampling', (ctx) => {
    const said = sampled(ctx, 'capital_question');
    if (said !== undefined) return result(text(said));
    return inputRequired({ inputRequests: { capital_question: askModel('What is the capital of France?', 100) } });
  });
  tool('list_roots', 'Requests the roots', (ctx) => {
    const given = roots(ctx);
    if (given) return result(text(given.map((root) => root.uri).join(', ')));
    return inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } });
  });
  // The SDK has rejected a changed state before this.
  const confirm = async (ctx) => {
    const confirmed = acceptedContent(ctx.mcpReq.inputResponses, 'confirm');
    if (confirmed && ctx.mcpReq.requestState()?.confirming) return result(text('state-ok'));
    return inputRequired({
      inputRequests: { confirm: askConfirmation() },
      requestState: await state.mint({ confirming: true }, ctx),
    });
  };
  tool('request_state', 'Receives its state again', confirm);
  tool('tampered_state', 'Rejects a changed state', confirm);
  tool('multiple_inputs', 'Requests a name, a sampling and the roots at once', async (ctx) => {
    const [who, greeting, where] = [named(ctx), sampled(ctx, 'greeting'), roots(ctx)];
    if (who !== undefined && greeting !== undefined && where) {
      return result(text(`${greeting} ${who}, of ${where.length} roots`));
    }
    return inputRequired({
      inputRequests: {
        user_name: askName(),
        greeting: askModel('Generate a greeting', 50),
        client_roots: inputRequired.listRoots(),
      },
      requestState: await state.mint({}, ctx),
    });
  });
  tool('multi_round', 'Requests input twice', async (ctx) => {
    const said = ctx.mcpReq.requestState();
    const step1 = acceptedContent(ctx.mcpReq.inputResponses, 'step1');
    const step2 = acceptedContent(ctx.mcpReq.inputResponses, 'step2');
    if (said?.name !== undefined && step2) return result(text(`${said.name} likes ${step2.color}`));
    if (said && step1) {
      return inputRequired({
        inputRequests: { step2: form('Step 2: What is your favorite color?', { color: { type: 'string' } }) },
        requestState: await state.mint({ name: step1.name }, ctx),
      });
    }
    return inputRequired({
      inputRequests: { step1: form('Step 1: What is your name?', { name: { type: 'string' } }) },
      requestState: await state.mint({}, ctx),
    });
  });
  tool('capabilities', 'Requests the kinds of input that the client supports', (ctx) => {
    const can = ctx.mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? server.server.getClientCapabilities() ?? {};
    const inputRequests = {
      ...(can.elicitation && { user_name: askName() }),
      ...(can.sampling && { greeting: askModel('Generate a greeting', 50) }),
      ...(can.roots && { client_roots: inputRequired.listRoots() }),
    };
    if (ctx.mcpReq.inputResponses || Object.keys(inputRequests).length === 0) return result(text('No input is needed'));
    return inputRequired({ inputRequests });
  });
}

function resources(server) {
  const fixed = (uri, description, mimeType, body) =>
    server.registerResource(uri.slice('test://'.length), uri, { description, mimeType }, () => ({
      contents: [{ uri, mimeType, ...body }],
    }));
  fixed('test://static-text', 'Text', 'text/plain', { text: 'This is the content of the static text resource.' });
  fixed('test://static-binary', 'An image', 'image/png', { blob: png });
  fixed(watched, 'Changes every 3 seconds', 'text/plain', { text: 'Watched resource content' });
  server.registerResource(
    'template',
    new ResourceTemplate('test://template/{id}/data', { list: undefined }),
    { description: 'Repeats its parameter', mimeType: 'application/json' },
    (uri, { id }) => ({
      contents: [
        {
          uri: uri.href,
          mimeType: 'application/json',
          text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }),
        },
      ],
    }),
  );
}

function prompts(server) {
  const messages = (...blocks) => ({ messages: blocks.map((block) => ({ role: 'user', content: block })) });
  server.registerPrompt('test_simple_prompt', { description: 'Text' }, () =>
    messages(text('This is a simple prompt for testing.')),
  );
  const places = ['paris', 'park', 'party'];
  const place = completable(z.string(), (start) => places.filter((p) => p.startsWith(start)));
  server.registerPrompt(
    'test_prompt_with_arguments',
    { description: 'Repeats its arguments', argsSchema: z.object({ arg1: place, arg2: z.string() }) },
    ({ arg1, arg2 }) => messages(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  );
  server.registerPrompt(
    'test_prompt_with_embedded_resource',
    { description: 'Contains a resource', argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri }) =>
      messages(
        resource(resourceUri, 'text/plain', 'Embedded resource content for testing.'),
        text('Please process the embedded resource above.'),
      ),
  );
  server.registerPrompt('test_prompt_with_image', { description: 'Contains an image' }, () =>
    messages(image, text('Please analyze the image above.')),
  );
  server.registerPrompt('test_input_required_result_prompt', { description: 'Requests its context' }, (ctx) => {
    const given = acceptedContent(ctx.mcpReq.inputResponses, 'user_context');
    if (given) return messages(text(`Context: ${given.context}`));
    const question = form('What context should the prompt use?', { context: { type: 'string' } });
    return inputRequired({ inputRequests: { user_context: question } });
  });
}
