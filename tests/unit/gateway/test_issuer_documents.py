"""The documents of an issuer are fetched only from where the tenant may reach, are bounded,
and follow no redirects.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from auth.issuer_keys import IssuerUnreachable
from edge.egress.guard import Guard
from gateway.issuer_documents import IssuerDocuments
from metadata.errors import MetadataUnavailable

TENANT = b"t" * 16


class Server:
    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if request.path == "/moved":
            raise web.HTTPFound(f"{self.url}/good")
        if request.path == "/gone":
            raise web.HTTPNotFound
        if request.path == "/huge":
            return web.Response(body=b"x" * 2000)
        if request.path == "/slow":
            await asyncio.sleep(60)
        return web.Response(body=b"{}")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    made = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.url = f"http://{host}:{port}"
    yield made
    await runner.cleanup()


def documents(*allowed: str, timeout_s: float = 30) -> IssuerDocuments:
    """Return documents whose timeout a busy machine does not reach, unless a test is about it."""

    async def guard_of(tenant_id: bytes) -> Guard:
        assert tenant_id == TENANT
        return Guard(allowed)

    return IssuerDocuments(guard_of, timeout_s=timeout_s, max_bytes=1000)


async def test_the_body_of_a_200(server: Server) -> None:
    fetched = await documents("http://127.0.0.1:*").fetch(TENANT, f"{server.url}/good")
    assert fetched == b"{}"


@pytest.mark.parametrize(
    ("path", "why"),
    [("/moved", "302|redirect"), ("/gone", "404"), ("/huge", "1000")],
)
async def test_what_is_no_answer(server: Server, path: str, why: str) -> None:
    with pytest.raises(IssuerUnreachable, match=why):
        await documents("http://127.0.0.1:*").fetch(TENANT, server.url + path)
    assert server.asked == [path]


async def test_an_answer_that_takes_too_long_is_given_up(server: Server) -> None:
    impatient = documents("http://127.0.0.1:*", timeout_s=0.5)
    with pytest.raises(IssuerUnreachable, match=r"0\.5 s"):
        await impatient.fetch(TENANT, server.url + "/slow")


@pytest.mark.parametrize("where", ["", "/good"])
async def test_what_the_tenant_may_not_reach(server: Server, where: str) -> None:
    with pytest.raises(IssuerUnreachable):
        await documents().fetch(TENANT, server.url + where)
    with pytest.raises(IssuerUnreachable, match="loopback"):
        await documents().fetch(TENANT, "https://127.0.0.1/keys")
    with pytest.raises(IssuerUnreachable):
        await documents("http://127.0.0.1:*").fetch(TENANT, "http://anna@127.0.0.1/keys")
    assert server.asked == []


async def test_rules_that_cannot_be_read() -> None:
    async def guard_of(tenant_id: bytes) -> Guard:
        raise MetadataUnavailable("down")

    with pytest.raises(IssuerUnreachable, match="down"):
        await IssuerDocuments(guard_of).fetch(TENANT, "https://example.com")
