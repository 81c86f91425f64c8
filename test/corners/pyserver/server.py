"""The server at the corners once more, made with the Python SDK 2.x: with -http both
eras at one endpoint, each request answered in its own, and it prints the address.
Else it speaks stdio, where the SDK has a process stay in the era of its first
request.

What its tools do is said in test/corners/server. Where the SDK leaves something
to the program, this does as the Go SDK does.
"""

import asyncio
import json
import socket
import sys
import warnings

import anyio
import uvicorn

import mcp.types as types
from mcp import MCPError, MCPDeprecationWarning
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated, ToolsListChanged

warnings.simplefilter("ignore", MCPDeprecationWarning)

STATELESS = "2026-07-28"
PATIENCE = 60
OBJECT = {"type": "object"}
KEYED = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
ECHO = {"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}}
REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}

bus = InMemorySubscriptionBus()
heard, became = {}, {}


def stateless(ctx):
    return ctx.protocol_version >= STATELESS


async def echo(ctx, params):
    text = json.dumps(params.arguments, ensure_ascii=False, separators=(",", ":"))
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=params.arguments)


async def region(ctx, params):
    return json.dumps(params.arguments, ensure_ascii=False, separators=(",", ":"))


async def spoken(ctx, params):
    return ctx.protocol_version


async def fail(ctx, params):
    return types.CallToolResult(content=[types.TextContent(text="it failed, as asked")], is_error=True)


async def progress(ctx, params):
    for i in range(1, 6):
        await ctx.session.report_progress(i, 5, f"step {i}")
    await asyncio.wait_for(heard.setdefault(params.arguments["key"], asyncio.Event()).wait(), PATIENCE)
    return "done"


async def enough(ctx, params):
    heard.setdefault(params.arguments["key"], asyncio.Event()).set()
    return "enough"


async def log(ctx, params):
    # Without debug: whether that is wanted, this SDK leaves to the program.
    for level in ("info", "warning", "error"):
        await ctx.session.send_log_message(level, params.arguments["key"], "corner", related_request_id=ctx.request_id)
    return "logged"


async def grow(ctx, params):
    if stateless(ctx):
        await bus.publish(ToolsListChanged())
    else:
        await ctx.session.send_tool_list_changed()
    return "growing"


async def grown(ctx, params):
    return "yes"


async def touch(ctx, params):
    uri = "corner://kept/" + params.arguments["key"]
    if stateless(ctx):
        await bus.publish(ResourceUpdated(uri=uri))
    else:
        await ctx.session.send_resource_updated(uri)
    return "touched"


async def wait(ctx, params):
    key = params.arguments["key"]
    became[key] = "waiting"
    try:
        await anyio.sleep(PATIENCE)
    except anyio.get_cancelled_exc_class():
        became[key] = "cancelled"
        raise
    became[key] = "never cancelled"
    return "waited"


async def ask_became(ctx, params):
    return "it is " + became.get(params.arguments["key"], "")


def asking(request, send, show):
    """A tool that asks its client, in the era of the request."""

    async def tool(ctx, params):
        if not stateless(ctx):
            return show(await send(ctx))
        answer = (params.input_responses or {}).get("q")
        if answer is None:
            return types.InputRequiredResult(input_requests={"q": request}, request_state=f"state of {params.name}")
        if params.request_state != f"state of {params.name}":
            raise MCPError(types.INVALID_PARAMS, f"the state is {params.request_state!r}")
        return show(answer)

    return tool


question = [types.SamplingMessage(role="user", content=types.TextContent(text="hello?"))]
form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
sample = asking(
    types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=question, max_tokens=10)),
    lambda ctx: ctx.session.create_message(question, max_tokens=10, related_request_id=ctx.request_id),
    lambda a: f"{a.role} {a.model}: {(a.content[0] if isinstance(a.content, list) else a.content).text}",
)
elicit = asking(
    types.ElicitRequest(params=types.ElicitRequestFormParams(message="who?", requested_schema=form)),
    lambda ctx: ctx.session.elicit_form("who?", form, ctx.request_id),
    lambda a: f"{a.action} {a.content['name']}",
)
roots = asking(
    types.ListRootsRequest(),
    lambda ctx: ctx.session.list_roots(),
    lambda a: "".join(f"{r.name} {r.uri}\n" for r in a.roots),
)

TOOLS = {
    "became": (ask_became, KEYED), "echo": (echo, ECHO), "elicit": (elicit, OBJECT), "enough": (enough, KEYED),
    "fail": (fail, OBJECT), "grow": (grow, OBJECT), "grown": (grown, OBJECT), "log": (log, KEYED),
    "progress": (progress, KEYED), "region": (region, REGION), "roots": (roots, OBJECT), "sample": (sample, OBJECT),
    "spoken": (spoken, OBJECT), "touch": (touch, KEYED), "wait": (wait, KEYED),
}


async def list_tools(ctx, params):
    return types.ListToolsResult(tools=[
        types.Tool(name=name, description="the tool " + name, input_schema=schema) for name, (_, schema) in TOOLS.items()
    ])


async def call_tool(ctx, params):
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f'unknown tool "{params.name}"')
    result = await TOOLS[params.name][0](ctx, params)
    return types.CallToolResult(content=[types.TextContent(text=result)]) if isinstance(result, str) else result


async def list_resources(ctx, params):
    return types.ListResourcesResult(resources=[types.Resource(name="fixed", uri="corner://fixed", mime_type="text/plain")])


async def list_templates(ctx, params):
    return types.ListResourceTemplatesResult(resource_templates=[types.ResourceTemplate(name="kept", uri_template="corner://kept/{key}")])


async def read_resource(ctx, params):
    uri = str(params.uri)
    if uri.endswith("/missing"):
        raise MCPError(types.INVALID_PARAMS, "Resource not found")
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text=f"what {uri} holds")])


async def list_prompts(ctx, params):
    return types.ListPromptsResult(prompts=[types.Prompt(name="greet", arguments=[types.PromptArgument(name="name", required=True)])])


async def get_prompt(ctx, params):
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=types.TextContent(text="Hello, " + params.arguments["name"]))])


async def complete(ctx, params):
    start = params.argument.value
    return types.CompleteResult(completion=types.Completion(values=[start + "da", start + "lan"], total=2))


async def nothing(ctx, params):
    return types.EmptyResult()


class Changing(Server):
    """A server that says to clients with sessions too that its tools change."""

    def get_capabilities(self, notification_options=None, *args, **kwargs):
        return super().get_capabilities(NotificationOptions(tools_changed=True), *args, **kwargs)


server = Changing(
    "corners", version="1.2.3", instructions="Ask for anything.",
    on_list_tools=list_tools, on_call_tool=call_tool, on_list_resources=list_resources,
    on_list_resource_templates=list_templates, on_read_resource=read_resource,
    on_subscribe_resource=nothing, on_unsubscribe_resource=nothing, on_subscriptions_listen=ListenHandler(bus),
    on_list_prompts=list_prompts, on_get_prompt=get_prompt, on_completion=complete, on_set_logging_level=nothing,
)



async def stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if "-http" not in sys.argv:
    asyncio.run(stdio())
    sys.exit()
listener = socket.create_server(("127.0.0.1", 0))
print("%s:%d" % listener.getsockname(), flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(streamable_http_path="/"), log_level="warning")).run(sockets=[listener])
