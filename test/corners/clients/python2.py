"""The Python SDK 2.x in the steps of the corners: python2.py URL streamable|sse VERSION KEY.

MODE in the environment is the SDK's: "legacy", "auto", or a version without
sessions. Of the versions with sessions it speaks its newest only, so VERSION is
only what the test expects.
"""

import asyncio
import os
import warnings

import anyio

import mcp.types as types
from mcp import Client, MCPDeprecationWarning, MCPError
from mcp.client.sse import sse_client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged

from corner import PATIENCE, Steps, answers, changed, key, on_log, say, transport, updated, url, version

warnings.simplefilter("ignore", MCPDeprecationWarning)

STATELESS = "2026-07-28"


async def on_message(message):
    match message:
        case types.ResourceUpdatedNotification(params=p):
            updated.put_nowait(str(p.uri))
        case types.ToolListChangedNotification():
            changed.put_nowait("changed")


class Python2(Steps):
    types, Error = types, MCPError

    def __init__(self, client):
        self.client = client

    async def met(self):
        met = self.client.server_info
        return {"name": met and met.name, "version": met and met.version, "protocol": self.client.protocol_version, "instructions": self.client.instructions}

    async def logged(self, tool, arguments):
        if version < STATELESS:
            await self.client.set_logging_level("info")
            await self.client.call_tool(tool, arguments)
        else:  # only here, as other clients do; the client's own log_level goes with every request
            await self.client.call_tool(tool, arguments, meta={"io.modelcontextprotocol/logLevel": "info"})

    def read(self, uri):
        return self.client.read_resource(uri)

    async def watched(self, uri):
        if version < STATELESS:
            await self.subscribed(uri)
            return
        await self.seen("list changed", self.events(uri))
        say("unsubscribed", "")  # the stream is closed

    async def events(self, uri):
        """Subscriptions as a stream of 2026-07-28."""
        async with self.client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as stream:
            await self.call("touch", key=key)
            async with asyncio.timeout(PATIENCE):
                event = await anext(stream)
                while not isinstance(event, ResourceUpdated):
                    event = await anext(stream)
                say("updated", str(event.uri))
                await self.call("grow")
                while not isinstance(event, ToolsListChanged):
                    event = await anext(stream)
        return "changed"

    async def left(self):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: self.call("wait", key=key))
                await self.became("it is waiting")
                scope.cancel()
        return scope.cancelled_caught


async def main():
    async with Client(
        sse_client(url) if transport == "sse" else url,
        mode=os.environ["MODE"],
        client_info=types.Implementation(name="python2", version="1"),
        message_handler=on_message,
        logging_callback=on_log,
        **answers(types),
    ) as client:
        await Python2(client).run()


asyncio.run(main())
