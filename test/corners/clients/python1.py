"""The Python SDK 1.x in the steps of the corners: python1.py URL streamable|sse VERSION KEY.

It speaks its newest version with sessions and has no way to be told another, so
VERSION is only what the test expects.
"""

import asyncio
import json
import sys

from pydantic import AnyUrl

import mcp.types as types
from mcp import ClientSession, McpError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

PATIENCE = 15
url, transport, version, key = sys.argv[1:]
reported, logs, updated, changed = (asyncio.Queue() for _ in range(4))


def say(step, got):
    print(json.dumps({"step": step, "got": got}), flush=True)


async def seen(step, awaitable, show=lambda got: got):
    """Prints what was seen in a step, or the error that was seen instead."""
    try:
        say(step, show(await awaitable))
    except McpError as err:
        say(step, {"code": err.error.code, "message": err.error.message})


async def take(queue):
    try:
        return await asyncio.wait_for(queue.get(), PATIENCE)
    except TimeoutError:
        return "nothing came"


async def many(n, queue):
    return [await take(queue) for _ in range(n)]


async def on_message(message):
    match getattr(message, "root", None):
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
    return ("error: " if result.isError else "") + result.content[0].text


async def steps(session):
    async def call(tool, **arguments):
        return text(await session.call_tool(tool, arguments))

    async def became(want):
        async with asyncio.timeout(PATIENCE):
            while True:
                got = await call("became", key=key)
                if got == want:
                    return got
                await asyncio.sleep(0.02)

    met = await session.initialize()
    say("server", {"name": met.serverInfo.name, "version": met.serverInfo.version, "protocol": met.protocolVersion, "instructions": met.instructions})

    tools = (await session.list_tools()).tools
    say("tools", [t.name for t in tools])
    say("tool", [t.model_dump(mode="json") for t in tools if t.name == "echo"])
    resources = (await session.list_resources()).resources
    templates = (await session.list_resource_templates()).resourceTemplates
    say("resources", [str(r.uri) for r in resources] + [t.uriTemplate for t in templates])
    await seen("prompt", session.get_prompt("greet", {"name": "Ada"}), lambda p: p.messages[0].content.text)
    ref = types.PromptReference(type="ref/prompt", name="greet")
    await seen("completion", session.complete(ref, {"name": "name", "value": "A"}), lambda c: c.completion.values)

    echoed = await session.call_tool("echo", {"n": 9007199254740991, "text": 'ä€ "\n\u2028<>&'})
    say("echo", text(echoed))
    say("structured", echoed.structuredContent)
    await seen("region", call("region", region="eu west ä"))
    await seen("spoken", call("spoken"))
    await seen("failing tool", call("fail"))
    await seen("unknown tool", call("no such tool"))

    async def on_progress(progress, total, message):
        reported.put_nowait(f"{progress:g}/{total:g} {message}")

    done = asyncio.create_task(session.call_tool("progress", {"key": key}, progress_callback=on_progress))
    heard = await many(5, reported)
    await call("enough", key=key)
    say("progress", heard + [text(await done)])
    await session.set_logging_level("info")
    await call("log", key=key)
    say("log", await many(3, logs))

    for tool in ("sample", "elicit", "roots"):
        await seen(tool, call(tool))

    await seen("resource", session.read_resource(AnyUrl("corner://fixed")), lambda r: r.contents[0].text)
    await seen("missing resource", session.read_resource(AnyUrl("corner://kept/missing")), lambda r: "it is there")
    kept = AnyUrl(f"corner://kept/{key}")
    await session.subscribe_resource(kept)
    await call("touch", key=key)
    say("updated", await take(updated))
    await seen("unsubscribed", session.unsubscribe_resource(kept), lambda _: "")
    await call("grow")
    say("list changed", await take(changed))

    # This SDK does not tell the server by itself, nor the request's id, which is
    # the next one.
    id = session._request_id
    waiting = asyncio.create_task(call("wait", key=key))
    while session._request_id == id:
        await asyncio.sleep(0)
    await became("it is waiting")
    await session.send_notification(types.ClientNotification(types.CancelledNotification(params=types.CancelledNotificationParams(requestId=id))))
    waiting.cancel()
    ended = (await asyncio.gather(waiting, return_exceptions=True))[0]
    say("cancelled", {"server": await became("it is cancelled"), "client": isinstance(ended, asyncio.CancelledError)})
    await seen("afterwards", call("grown"))


async def main():
    async with sse_client(url) if transport == "sse" else streamable_http_client(url) as streams:
        async with ClientSession(
            *streams[:2],
            client_info=types.Implementation(name="python1", version="1"),
            message_handler=on_message,
            logging_callback=on_log,
            sampling_callback=on_sampling,
            elicitation_callback=on_elicitation,
            list_roots_callback=on_roots,
        ) as session:
            await steps(session)


asyncio.run(main())
