"""Every endpoint gives one answer, in time and of bounded size, no matter how it behaves."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from aiohttp.abc import ResolveResult

from edge.egress.guard import Guard
from edge.egress.resolver import Question, SystemResolver
from harness.hostile_endpoint import HostileEndpoint
from subscribe_forwarder.push import sender as sender_module
from subscribe_forwarder.push.requests import PushRequest
from subscribe_forwarder.push.sender import OneRule, Sender
from subscribe_forwarder.push.verdict import Answer

TENANT = bytes(16)
HERE = ("http://127.0.0.0/8:*",)


@pytest.fixture
async def endpoint() -> AsyncIterator[HostileEndpoint]:
    async with HostileEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def sender(endpoint: HostileEndpoint) -> AsyncIterator[Sender]:
    sender = Sender(OneRule(Guard(HERE)), ssl_context=endpoint.trusting())
    yield sender
    await sender.close()


def to(url: str, body: bytes = b"{}") -> PushRequest:
    return PushRequest(
        url, [("Content-Type", "application/json"), ("webhook-id", "m")], body, TENANT
    )


async def test_what_is_sent_arrives_as_it_is(endpoint: HostileEndpoint, sender: Sender) -> None:
    answer = await sender.send(to(endpoint.url("/ok"), b'{"a":1}'), 10)
    assert (answer.status, answer.excerpt, answer.failure) == (200, b"this is ok", "")
    assert answer.delivered
    assert answer.latency_s > 0
    (received,) = endpoint.received
    assert (received.method, received.path, received.body) == ("POST", "/ok", b'{"a":1}')
    assert {name.lower() for name, _ in received.headers} == {
        "host", "content-type", "webhook-id", "content-length", "accept", "accept-encoding",
        "user-agent",
    }  # fmt: skip
    assert received.header("accept-encoding") == "identity"


async def test_connections_are_used_again(endpoint: HostileEndpoint, sender: Sender) -> None:
    for path in ("/ok", "/500", "/410", "/ok"):
        await sender.send(to(endpoint.url(path)), 10)
    assert endpoint.connections == 1
    assert (await sender.send(to(endpoint.url("/ok", tls="ok")), 10)).delivered
    assert (await sender.send(to(endpoint.url("/ok", tls="ok")), 10)).delivered
    assert endpoint.connections == 2


@pytest.mark.parametrize(
    ("path", "status", "retry_after"),
    [("/500", 500, None), ("/410", 410, None), ("/429", 429, "2"), ("/status/204", 204, None)],
)
async def test_statuses(
    endpoint: HostileEndpoint, sender: Sender, path: str, status: int, retry_after: str | None
) -> None:
    answer = await sender.send(to(endpoint.url(path)), 10)
    assert (answer.status, answer.failure) == (status, "")
    assert answer.headers.get("retry-after") == retry_after
    assert answer.delivered is (status == 204)


@pytest.mark.parametrize(
    ("path", "status", "failure"),
    [
        ("/hang", None, "timeout"),
        ("/drip", 200, "timeout"),
        ("/drip-head", None, "timeout"),
        ("/interim", None, "garbage"),
        ("/chunks", 200, "closed"),
        ("/huge", 200, "too_long"),
        ("/huge-head", None, "garbage"),
        ("/early-close", None, "closed"),
        ("/reset", None, "closed"),
        ("/cut", 200, "closed"),
        ("/garbage", None, "garbage"),
    ],
)
async def test_every_endpoint_ends_in_time(
    endpoint: HostileEndpoint, sender: Sender, path: str, status: int | None, failure: str
) -> None:
    answer = await asyncio.wait_for(sender.send(to(endpoint.url(path)), 0.5), 20)
    assert (answer.status, answer.failure) == (status, failure)
    assert not answer.delivered
    assert answer.detail
    assert len(answer.excerpt) <= 1024


async def test_hints_before_an_answer_and_tiny_chunks_are_no_fault(
    endpoint: HostileEndpoint, sender: Sender
) -> None:
    answer = await sender.send(to(endpoint.url("/polite")), 10)
    assert answer.delivered
    assert answer.excerpt == b"x" * 500


@pytest.mark.parametrize("path", ["/interim", "/chunks"])
async def test_what_costs_us_more_than_them_ends_at_once(
    endpoint: HostileEndpoint, sender: Sender, path: str
) -> None:
    """The timeout does not end such a request, because the endpoint would hold it up."""
    answer = await sender.send(to(endpoint.url(path)), 600)
    assert answer.failure in ("garbage", "closed")
    assert endpoint.sent_bytes < 8_000_000


async def test_an_endpoint_that_reads_nothing(endpoint: HostileEndpoint, sender: Sender) -> None:
    large = to(endpoint.url("/unread"), bytes(20_000_000))
    answer = await asyncio.wait_for(sender.send(large, 0.5), 20)
    assert (answer.status, answer.failure) == (None, "timeout")


async def test_a_large_body_arrives_whole(endpoint: HostileEndpoint, sender: Sender) -> None:
    body = os.urandom(3_000_000)
    assert (await sender.send(to(endpoint.url("/ok"), body), 30)).delivered
    assert endpoint.received[0].body == body


async def test_endless_bodies_leave_no_bytes_behind(
    endpoint: HostileEndpoint, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timeout ends the request without the limit, and bytes that came meanwhile are not
    kept.
    """
    monkeypatch.setattr(sender_module, "MAX_RESPONSE_BYTES", 1 << 60)
    await sender.send(to(endpoint.url("/ok")), 10)
    gc.collect()
    tracemalloc.start()
    try:
        answers = await asyncio.gather(
            *(sender.send(to(endpoint.url("/huge")), 1.0) for _ in range(8))
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {(answer.status, answer.failure) for answer in answers} == {(200, "timeout")}
    assert endpoint.sent_bytes > 8_000_000
    assert peak < 8_000_000


@pytest.mark.parametrize("kind", ["self_signed", "expired", "wrong_name"])
async def test_tls_that_does_not_hold(endpoint: HostileEndpoint, sender: Sender, kind: str) -> None:
    answer = await sender.send(to(endpoint.url("/ok", tls=kind)), 10)
    assert (answer.status, answer.failure) == (None, "tls")
    assert endpoint.received == []


async def test_http_where_tls_is_spoken_and_the_other_way_round(
    endpoint: HostileEndpoint, sender: Sender
) -> None:
    plain = endpoint.url("/ok").replace("http:", "https:")
    assert (await sender.send(to(plain), 0.5)).failure in ("tls", "timeout")
    secret = endpoint.url("/ok", tls="ok").replace("https:", "http:")
    assert (await sender.send(to(secret), 10)).failure in ("closed", "garbage")


async def test_nobody_listens(sender: Sender, unused_tcp_port: int) -> None:
    answer = await sender.send(to(f"http://127.0.0.1:{unused_tcp_port}/"), 10)
    assert (answer.status, answer.failure) == (None, "refused")
    answer = await sender.send(to("https://does-not-exist.invalid/"), 10)
    assert answer.failure == "refused"


async def test_a_redirect_is_an_answer_and_leads_nowhere(
    endpoint: HostileEndpoint, sender: Sender
) -> None:
    answer = await sender.send(to(endpoint.url("/redirect")), 10)
    assert (answer.status, answer.failure, answer.delivered) == (302, "", False)
    assert endpoint.connections == 1


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.1/",
        "http://169.254.169.254/",
        "ftp://127.0.0.1/",
        "https://[::ffff:169.254.169.254]/",
        "https://2130706433/",
        "https://",
        "no url",
    ],
)
async def test_what_is_denied_is_an_answer_too(sender: Sender, url: str) -> None:
    answer = await sender.send(to(url), 10)
    assert (answer.status, answer.failure) == (None, "denied")
    assert answer.detail


async def test_rules_of_one_tenant_are_nothing_to_another(endpoint: HostileEndpoint) -> None:
    """The rules hold also where a connection could be reused."""
    allowed, other = bytes(15) + b"a", bytes(15) + b"b"

    class Rules:
        async def guard_of(self, tenant_id: bytes) -> Guard:
            return Guard(HERE) if tenant_id == allowed else Guard()

    sender = Sender(Rules())
    request = to(endpoint.url("/ok"))
    assert (await sender.send(request._replace(tenant_id=allowed), 10)).delivered
    assert (await sender.send(request._replace(tenant_id=other), 10)).failure == "denied"
    assert (await sender.send(request._replace(tenant_id=allowed), 10)).delivered
    assert (len(endpoint.received), endpoint.connections) == (2, 1)
    await sender.close()


async def test_names_of_one_tenant_that_hang_hold_up_no_other(endpoint: HostileEndpoint) -> None:
    answering = threading.Event()

    def ask(question: Question) -> list[ResolveResult]:
        if question.host == "hangs.example":
            answering.wait(20)
        return [
            ResolveResult(
                hostname=question.host,
                host="127.0.0.1",
                port=question.port,
                family=socket.AF_INET,
                proto=0,
                flags=0,
            )
        ]

    guard = Guard(["http://127.0.0.0/8:*"])
    sender = Sender(OneRule(guard), resolver=SystemResolver(ask, threads_of_one=1))
    url = endpoint.url("/ok").replace("127.0.0.1", "name.example")
    hangs = asyncio.create_task(sender.send(to(url.replace("name", "hangs")), 20))
    behind = asyncio.create_task(sender.send(to(url), 20))
    await asyncio.sleep(0)
    assert (await sender.send(to(url)._replace(tenant_id=b"o" * 16), 20)).delivered
    assert not hangs.done()
    assert not behind.done()
    answering.set()
    assert (await behind).delivered
    await hangs
    await sender.close()


async def test_sessions_of_rules_gone_by_are_closed(
    endpoint: HostileEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_module, "MAX_SESSIONS", 2)
    counted = [0]

    class Rules:
        async def guard_of(self, tenant_id: bytes) -> Guard:
            counted[0] += 1
            return Guard((*HERE, f"{counted[0]}.example"))

    sender = Sender(Rules())
    answers = [await sender.send(to(endpoint.url("/ok")), 10) for _ in range(5)]
    assert all(answer.delivered for answer in answers)
    assert len(sender._sessions) == 2
    await sender.close()


async def test_cancelled_it_leaves_no_connection(endpoint: HostileEndpoint, sender: Sender) -> None:
    sending = asyncio.ensure_future(sender.send(to(endpoint.url("/hang")), 600))
    await endpoint.arrivals(1)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert (await sender.send(to(endpoint.url("/ok")), 10)).delivered
    assert endpoint.connections == 2


async def test_a_header_that_would_end_the_head_is_not_sent(
    endpoint: HostileEndpoint, sender: Sender
) -> None:
    request = to(endpoint.url("/ok"))._replace(headers=[("X-A", "1\r\nX-B: 2")])
    assert (await sender.send(request, 10)).failure == "denied"
    assert endpoint.received == []


def test_an_answer_that_broke_off_delivers_nothing() -> None:
    for failure in ("timeout", "closed", "too_long"):
        assert not Answer(200, {}, b"", 0.0, failure).delivered
