"""The Python SDK 1.x in the steps of the corners: python1.py URL streamable|sse VERSION KEY.

It speaks its newest version with sessions and has no way to be told another, so
VERSION is only what the test expects.
"""

import asyncio

from pydantic import AnyUrl

import mcp.types as types
from mcp import ClientSession, McpError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from corner import Steps, answers, changed, key, on_log, transport, updated, url


async def on_message(message):
    match getattr(message, "root", None):
        case types.ResourceUpdatedNotification(params=p):
            updated.put_nowait(str(p.uri))
        case types.ToolListChangedNotification():
            changed.put_nowait("changed")


class Python1(Steps):
    types, Error = types, McpError

    def __init__(self, session):
        self.client = session

    async def met(self):
        met = await self.client.initialize()
        return {"name": met.serverInfo.name, "version": met.serverInfo.version, "protocol": met.protocolVersion, "instructions": met.instructions}

    async def logged(self, tool, arguments):
        await self.client.set_logging_level("info")
        await self.client.call_tool(tool, arguments)

    def read(self, uri):
        return self.client.read_resource(AnyUrl(uri))

    async def watched(self, uri):
        await self.subscribed(AnyUrl(uri))

    async def left(self):
        # This SDK does not tell the server by itself, nor the request's id, which
        # is the next one.
        id = self.client._request_id
        waiting = asyncio.create_task(self.call("wait", key=key))
        while self.client._request_id == id:
            await asyncio.sleep(0)
        await self.became("it is waiting")
        await self.client.send_notification(types.ClientNotification(types.CancelledNotification(params=types.CancelledNotificationParams(requestId=id))))
        waiting.cancel()
        ended = (await asyncio.gather(waiting, return_exceptions=True))[0]
        return isinstance(ended, asyncio.CancelledError)


async def main():
    async with sse_client(url) if transport == "sse" else streamable_http_client(url) as streams:
        async with ClientSession(
            *streams[:2],
            client_info=types.Implementation(name="python1", version="1"),
            message_handler=on_message,
            logging_callback=on_log,
            **answers(types),
        ) as session:
            await Python1(session).run()


asyncio.run(main())
