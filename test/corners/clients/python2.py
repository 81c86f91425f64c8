"""The Python SDK 2.x in the steps of the corners: python2.py URL streamable|sse VERSION KEY.

MODE in the environment is the SDK's: "legacy", "auto", or a version without
sessions. Of the versions with sessions it speaks its newest only, so VERSION is
only what the test expects.
"""

import asyncio
import json
import os
import sys
import warnings

import anyio

import mcp.types as types
from mcp import Client, MCPError, MCPDeprecationWarning
from mcp.client.sse import sse_client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged

warnings.simplefilter("ignore", MCPDeprecationWarning)

PATIENCE = 15
STATELESS = "2026-07-28"
url, transport, version, key = sys.argv[1:]
reported, logs, updated, changed = (asyncio.Queue() for _ in range(4))


def say(step, got):
    print(json.dumps({"step": step, "got": got}), flush=True)


async def seen(step, awaitable, show=lambda got: got):
    """Prints what was seen in a step, or the error that was seen instead."""
    try:
        say(step, show(await awaitable))
    except MCPError as err:
        say(step, {"code": err.error.code, "message": err.error.message})


async def take(queue):
    try:
        return await asyncio.wait_for(queue.get(), PATIENCE)
    except TimeoutError:
        return "nothing came"


async def many(n, queue):
    return [await take(queue) for _ in range(n)]


async def on_message(message):
    match message:
        case types.ResourceUpdatedNotification(params=p):
            updated.put_nowait(str(p.uri))
        case types.ToolListChangedNotification():
            changed.put_nowait("changed")


async def on_log(params):
    logs.put_nowait(f"{params.level} {params.logger} {params.data}")


async def on_sampling(context, params):
    text = params.messages[0].content.text
    return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(type="text", text=f"re: {text}"))


async def on_elicitation(context, params):
    if params.message != "who?":
        return types.ElicitResult(action="decline")
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def on_roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])


def text(result):
    return ("error: " if result.is_error else "") + result.content[0].text


async def events(client, uri, call):
    """Subscriptions as a stream of 2026-07-28."""
    async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as stream:
        await call("touch", key=key)
        async with asyncio.timeout(PATIENCE):
            event = await anext(stream)
            while not isinstance(event, ResourceUpdated):
                event = await anext(stream)
            say("updated", str(event.uri))
            await call("grow")
            while not isinstance(event, ToolsListChanged):
                event = await anext(stream)
    return "changed"


async def steps(client):
    async def call(tool, **arguments):
        return text(await client.call_tool(tool, arguments))

    async def became(want):
        async with asyncio.timeout(PATIENCE):
            while True:
                got = await call("became", key=key)
                if got == want:
                    return got
                await asyncio.sleep(0.02)

    met = client.server_info
    say("server", {"name": met and met.name, "version": met and met.version, "protocol": client.protocol_version, "instructions": client.instructions})

    tools = (await client.list_tools()).tools
    say("tools", [t.name for t in tools])
    say("tool", [t.model_dump(mode="json") for t in tools if t.name == "echo"])
    resources = (await client.list_resources()).resources
    templates = (await client.list_resource_templates()).resource_templates
    say("resources", [str(r.uri) for r in resources] + [t.uri_template for t in templates])
    await seen("prompt", client.get_prompt("greet", {"name": "Ada"}), lambda p: p.messages[0].content.text)
    ref = types.PromptReference(type="ref/prompt", name="greet")
    await seen("completion", client.complete(ref, {"name": "name", "value": "A"}), lambda c: c.completion.values)

    echoed = await client.call_tool("echo", {"n": 9007199254740991, "text": 'ä€ "\n\u2028<>&'})
    say("echo", text(echoed))
    say("structured", echoed.structured_content)
    await seen("region", call("region", region="eu west ä"))
    await seen("spoken", call("spoken"))
    await seen("failing tool", call("fail"))
    await seen("unknown tool", call("no such tool"))

    async def on_progress(progress, total, message):
        reported.put_nowait(f"{progress:g}/{total:g} {message}")

    done = asyncio.create_task(client.call_tool("progress", {"key": key}, progress_callback=on_progress))
    heard = await many(5, reported)
    await call("enough", key=key)
    say("progress", heard + [text(await done)])
    if version < STATELESS:
        await client.set_logging_level("info")
        await call("log", key=key)
    else:  # only here, as other clients do; the client's own log_level goes with every request
        await client.call_tool("log", {"key": key}, meta={"io.modelcontextprotocol/logLevel": "info"})
    say("log", await many(3, logs))

    for tool in ("sample", "elicit", "roots"):
        await seen(tool, call(tool))

    await seen("resource", client.read_resource("corner://fixed"), lambda r: r.contents[0].text)
    await seen("missing resource", client.read_resource("corner://kept/missing"), lambda r: "it is there")
    kept = f"corner://kept/{key}"
    if version < STATELESS:
        await client.subscribe_resource(kept)
        await call("touch", key=key)
        say("updated", await take(updated))
        await seen("unsubscribed", client.unsubscribe_resource(kept), lambda _: "")
        await call("grow")
        say("list changed", await take(changed))
    else:
        await seen("list changed", events(client, kept, call))
        say("unsubscribed", "")  # the stream is closed

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: call("wait", key=key))
            await became("it is waiting")
            scope.cancel()
    say("cancelled", {"server": await became("it is cancelled"), "client": scope.cancelled_caught})
    await seen("afterwards", call("grown"))


async def main():
    async with Client(
        sse_client(url) if transport == "sse" else url,
        mode=os.environ["MODE"],
        client_info=types.Implementation(name="python2", version="1"),
        message_handler=on_message,
        logging_callback=on_log,
        sampling_callback=on_sampling,
        elicitation_callback=on_elicitation,
        list_roots_callback=on_roots,
    ) as client:
        await steps(client)


asyncio.run(main())
