"""The steps of the corners, for a client of either Python SDK."""

import asyncio
import json
import sys

PATIENCE = 15
url, transport, version, key = sys.argv[1:]
reported, logs, updated, changed = (asyncio.Queue() for _ in range(4))


def say(step, got):
    print(json.dumps({"step": step, "got": got}), flush=True)


async def take(queue):
    try:
        return await asyncio.wait_for(queue.get(), PATIENCE)
    except TimeoutError:
        return "nothing came"


async def many(n, queue):
    return [await take(queue) for _ in range(n)]


async def on_log(params):
    logs.put_nowait(f"{params.level} {params.logger} {params.data}")


async def on_progress(progress, total, message):
    reported.put_nowait(f"{progress:g}/{total:g} {message}")


def wire(result):
    """A result by the protocol's names, which are not those of both SDKs."""
    return result.model_dump(mode="json", by_alias=True)


def text(result):
    result = wire(result)
    return ("error: " if result["isError"] else "") + result["content"][0]["text"]


class Steps:
    """Takes a client, self.client, through all of them. What the SDKs do in their
    own way is in the methods that are not here: met(), who the server is;
    logged(tool, arguments), a call during which the server's log is heard;
    read(uri), of a resource; watched(uri), which subscribes to it and to changes of
    the list, sees both, and unsubscribes; and left(), which cancels a call that
    waits and tells whether it ended so. types and Error are the SDK's: its types,
    and what it raises for an error of the server's."""

    async def call(self, tool, **arguments):
        return text(await self.client.call_tool(tool, arguments))

    async def became(self, want):
        async with asyncio.timeout(PATIENCE):
            while True:
                got = await self.call("became", key=key)
                if got == want:
                    return got
                await asyncio.sleep(0.02)

    async def seen(self, step, awaitable, show=lambda got: got):
        """Prints what was seen in a step, or the error that was seen instead."""
        try:
            say(step, show(await awaitable))
        except self.Error as err:
            say(step, {"code": err.error.code, "message": err.error.message})

    async def run(self):
        client, call, seen = self.client, self.call, self.seen
        say("server", await self.met())
        tools = wire(await client.list_tools())["tools"]
        say("tools", [t["name"] for t in tools])
        say("tool", [t for t in tools if t["name"] == "echo"])
        resources = wire(await client.list_resources())["resources"]
        templates = wire(await client.list_resource_templates())["resourceTemplates"]
        say("resources", [r["uri"] for r in resources] + [t["uriTemplate"] for t in templates])
        await seen("prompt", client.get_prompt("greet", {"name": "Ada"}), lambda p: p.messages[0].content.text)
        ref = self.types.PromptReference(type="ref/prompt", name="greet")
        await seen("completion", client.complete(ref, {"name": "name", "value": "A"}), lambda c: c.completion.values)

        echoed = await client.call_tool("echo", {"n": 9007199254740991, "text": 'ä€ "\n\u2028<>&'})
        say("echo", text(echoed))
        say("structured", wire(echoed)["structuredContent"])
        await seen("region", call("region", region="eu west ä"))
        await seen("spoken", call("spoken"))
        await seen("failing tool", call("fail"))
        await seen("unknown tool", call("no such tool"))

        done = asyncio.create_task(client.call_tool("progress", {"key": key}, progress_callback=on_progress))
        heard = await many(5, reported)
        await call("enough", key=key)
        say("progress", heard + [text(await done)])
        await self.logged("log", {"key": key})
        say("log", await many(3, logs))

        for tool in ("sample", "elicit", "roots"):
            await seen(tool, call(tool))

        await seen("resource", self.read("corner://fixed"), lambda r: r.contents[0].text)
        await seen("missing resource", self.read("corner://kept/missing"), lambda r: "it is there")
        await self.watched(f"corner://kept/{key}")

        ended = await self.left()
        say("cancelled", {"server": await self.became("it is cancelled"), "client": ended})
        await seen("afterwards", call("grown"))

    async def subscribed(self, uri):
        """watched, in the session era."""
        await self.client.subscribe_resource(uri)
        await self.call("touch", key=key)
        say("updated", await take(updated))
        await self.seen("unsubscribed", self.client.unsubscribe_resource(uri), lambda _: "")
        await self.call("grow")
        say("list changed", await take(changed))


def answers(types):
    """What the client answers, in the types of its SDK."""

    async def on_sampling(context, params):
        text = params.messages[0].content.text
        return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(type="text", text=f"re: {text}"))

    async def on_elicitation(context, params):
        if params.message != "who?":
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def on_roots(context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])

    return {"sampling_callback": on_sampling, "elicitation_callback": on_elicitation, "list_roots_callback": on_roots}
