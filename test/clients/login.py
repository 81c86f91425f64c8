"""The Python SDK's client against a gateway that requires access tokens, for the
scenarios: login.py URL USER [FILE]. The SDK finds the authorization server in the gateway's
challenge, registers itself, and requests authorization with PKCE; this script is the
browser and the person. It prints the tools and the result of a call as one line of JSON.
FILE keeps the client and its tokens. With a FILE that exists, a login is an error.
"""

import asyncio
import json
import os
import re
import sys
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, build_opener

import httpx

from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

URL, USER = sys.argv[1:3]
FILE = sys.argv[3] if len(sys.argv) > 3 else None
KEPT = FILE is not None and os.path.exists(FILE)
REDIRECT = "http://127.0.0.1:4/callback"


class NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def browse(page):
    """Opens a page and fills in the provider's forms, until it redirects to the client."""
    opener = build_opener(HTTPCookieProcessor(CookieJar()), NoRedirect)
    body = None
    for _ in range(20):
        try:
            text = opener.open(page, body).read().decode()
        except HTTPError as e:
            if e.code not in (302, 303):
                raise
            page, body = urljoin(page, e.headers["location"]), None
            if page.startswith(REDIRECT):
                return parse_qs(urlsplit(page).query)
            continue
        consent = re.search(r'name="login" value="([^"]+)"', text)
        if consent and 'name="decision"' in text:  # the page of thv's authorization server
            page, body = urljoin(page, re.search(r'action="([^"]+)"', text)[1]), urlencode({"login": consent[1], "decision": "allow"}).encode()
            continue
        action, prompt = re.search(r'action="([^"]+)"', text), re.search(r'name="prompt" value="([^"]+)"', text)
        if not action or not prompt:
            raise RuntimeError(f"a page without a form: {text[:500]}")
        page, body = urljoin(page, action[1]), urlencode({"prompt": prompt[1], "login": USER, "password": "x"}).encode()
    raise RuntimeError("the provider does not come to an end")


class Storage:
    tokens = client = None

    def load(self):
        with open(FILE) as f:
            kept = json.load(f)
        self.tokens = OAuthToken.model_validate(kept["tokens"])
        self.client = OAuthClientInformationFull.model_validate(kept["client"])

    def save(self):
        kept = {"tokens": self.tokens.model_dump(mode="json"), "client": self.client.model_dump(mode="json")}
        with open(FILE, "w") as f:
            json.dump(kept, f)

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Browser:
    answer = {}

    async def open(self, page):
        if KEPT:
            raise RuntimeError("the client has to log in again")
        self.answer = await asyncio.to_thread(browse, page)

    async def callback(self):
        return self.answer["code"][0], self.answer.get("state", [None])[0]


async def main():
    browser = Browser()
    metadata = OAuthClientMetadata(
        client_name="a client of the tests", redirect_uris=[REDIRECT], token_endpoint_auth_method="none",
        grant_types=["authorization_code", "refresh_token"], response_types=["code"], application_type="native",
    )
    storage = Storage()
    if KEPT:
        storage.load()
    login = OAuthClientProvider(URL, metadata, storage, browser.open, browser.callback)
    async with httpx.AsyncClient(auth=login, timeout=60) as http:
        async with streamable_http_client(URL, http_client=http) as (read, write, *_), ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            result = await session.call_tool("echo", {"text": "logged in"})
            print(json.dumps({"tools": [tool.name for tool in tools], "text": result.content[0].text}))
    if FILE:
        storage.save()


asyncio.run(main())
