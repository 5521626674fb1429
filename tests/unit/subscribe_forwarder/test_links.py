"""Requests, questions and notes over real links."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edge.asgi import (
    SUBJECT,
    TENANT,
    ClientGone,
    Receive,
    Scope,
    Send,
    path_param,
    read_body,
    respond,
)
from edge.problem import FieldError, Problem
from subscribe_forwarder.peers import FORWARDED, RACE, PeerGone
from tests.unit.subscribe_forwarder.link_pair import Client, open_links, until

PULL = "GET /subscriptions/{name}/messages"
MIB = 1024 * 1024


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_body(scope, receive, 64 * MIB)
    await respond(send, 200, body, headers=[(b"x-name", path_param(scope, "name").encode())])


def scope_of_everything() -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": "/subscriptions/ü/messages",
        "raw_path": b"/subscriptions/%C3%BC/messages",
        "query_string": b"max_messages=3",
        "headers": [(b"accept", b"*/*"), (b"x-two", b"1"), (b"x-two", b"\xff")],
        "client": ("192.0.2.1", 4711),
        "path_params": {"name": "ü"},
        TENANT: b"t" * 16,
        SUBJECT: "somebody",
    }


async def test_a_request_is_served_there_as_it_would_be_here() -> None:
    seen: list[Scope] = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await echo(scope, receive, send)

    async with open_links() as (front, owner):
        owner.links.serve(PULL, handler)
        client = Client(b"hello", scope=scope_of_everything())
        await front.link(owner).request(PULL, client.scope, client.receive, client.send)
    assert client.status == 200
    assert client.messages[0]["headers"][-1] == (b"x-name", "ü".encode())
    assert client.body == b"hello"
    assert client.whole
    assert {key: seen[0][key] for key in client.scope} == client.scope
    assert seen[0][FORWARDED] is True
    assert RACE not in seen[0]


@pytest.mark.parametrize("size", [0, 1, 128 * 1024, 128 * 1024 + 1, 9 * MIB])
async def test_bodies_of_any_size_pass_both_ways(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    async with open_links() as (front, owner):
        owner.links.serve(PULL, echo)
        client = Client(body, scope={"path_params": {"name": "s"}})
        async with asyncio.timeout(20):
            await front.link(owner).request(PULL, client.scope, client.receive, client.send)
    assert client.body == body
    assert client.whole


async def test_a_body_that_comes_in_parts_passes_in_parts() -> None:
    parts = [b"a" * 200_000, b"", b"b", b"c" * 700_000]
    async with open_links() as (front, owner):
        owner.links.serve(PULL, echo)
        client = Client(*parts, scope={"path_params": {"name": "s"}})
        async with asyncio.timeout(20):
            await front.link(owner).request(PULL, client.scope, client.receive, client.send)
    assert client.body == b"".join(parts)


async def test_problems_are_the_same_here_and_there() -> None:
    problem = Problem(
        429,
        "slow-down",
        "Slow down",
        "Too fast.",
        errors=[FieldError("a.b", "less")],
        retry_after_s=1.5,
        headers={"X-Limit": "3"},
        extra={"limit": 3, "names": ["x", None], "ratio": 0.5},
    )

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        raise problem

    async def answer(incarnation: bytes, body: bytes) -> bytes:
        raise problem

    async with open_links() as (front, owner):
        owner.links.serve(PULL, handler)
        owner.links.answers("why", answer)
        client = Client()
        with pytest.raises(Problem) as by_request:
            await front.link(owner).request(PULL, client.scope, client.receive, client.send)
        with pytest.raises(Problem) as by_question:
            await front.link(owner).ask("why", b"", 5.0)
    for raised in (by_request.value, by_question.value):
        assert vars(raised) == vars(problem)
        assert raised.to_json("urn:x") == problem.to_json("urn:x")
    assert client.messages == []


async def test_questions_and_notes() -> None:
    heard: list[tuple[bytes, bytes]] = []

    async def answer(incarnation: bytes, body: bytes) -> bytes:
        return incarnation + body

    async def never(incarnation: bytes, body: bytes) -> bytes:
        await asyncio.Event().wait()
        return b""

    async with open_links(3) as (one, two, three):
        one.links.answers("who", answer)
        one.links.answers("never", never)
        one.links.hears("news", lambda who, body: heard.append((who, body)))
        assert await two.link(one).ask("who", b"!", 5.0) == two.incarnation + b"!"
        with pytest.raises(TimeoutError):
            await two.link(one).ask("never", b"", 0.01)
        with pytest.raises(Problem):
            await two.link(one).ask("unheard of", b"", 5.0)
        two.links.tell("news", b"2")
        assert three.link(one).note("news", b"3")
        assert three.link(one).note("nobody hears this", b"")
        await until(lambda: len(heard) == 2)
    assert sorted(heard) == [(two.incarnation, b"2"), (three.incarnation, b"3")]


async def test_an_operation_that_is_not_served_there_is_refused() -> None:
    async with open_links() as (front, owner):
        client = Client()
        with pytest.raises(Problem) as refused:
            await front.link(owner).request(PULL, client.scope, client.receive, client.send)
    assert refused.value.status == 503


async def test_the_last_send_there_returns_once_it_has_here() -> None:
    sent = asyncio.Event()

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b"{}")
        sent.set()

    async with open_links() as (front, owner):
        owner.links.serve(PULL, handler)
        client = Client()
        client.reads.clear()
        asking = asyncio.create_task(
            front.link(owner).request(PULL, client.scope, client.receive, client.send)
        )
        await asyncio.sleep(0.05)
        assert not sent.is_set()
        client.reads.set()
        await asking
        await asyncio.wait_for(sent.wait(), 5)


async def test_a_client_that_goes_away_while_it_waits_is_gone_there_too() -> None:
    released = asyncio.Event()

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(scope, receive, MIB)
        assert (await receive())["type"] == "http.disconnect"
        try:
            await respond(send, 200, b"{}")
        except ClientGone:
            released.set()
            raise

    async with open_links() as (front, owner):
        owner.links.serve(PULL, handler)
        client = Client()
        asking = asyncio.create_task(
            front.link(owner).request(PULL, client.scope, client.receive, client.send)
        )
        await asyncio.sleep(0.01)
        client.gone.set()
        with pytest.raises(ClientGone):
            await asking
        await asyncio.wait_for(released.wait(), 5)


async def test_a_link_that_ends_ends_what_waits_on_both_sides() -> None:
    gone_there = asyncio.Event()
    peers: list[tuple[bytes, bool]] = []

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(scope, receive, MIB)
        assert (await receive())["type"] == "http.disconnect"
        gone_there.set()

    async with open_links() as (front, owner):
        owner.links.serve(PULL, handler)
        front.links.on_peer(lambda who, there: peers.append((who, there)))
        client = Client()
        link = front.link(owner)
        asking = asyncio.create_task(link.request(PULL, client.scope, client.receive, client.send))
        question = asyncio.create_task(link.ask("x", b"", 5.0))
        await asyncio.sleep(0.02)
        question.cancel()
        link.connection.abort("cut")
        with pytest.raises(PeerGone):
            await asking
        assert peers == [(owner.incarnation, False)]
        await asyncio.wait_for(gone_there.wait(), 5)
        with pytest.raises(PeerGone):
            await link.ask("x", b"", 1.0)
        assert link.note("x", b"") is False
        await until(lambda: peers[-1] == (owner.incarnation, True))
