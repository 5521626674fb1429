"""The transports tell from httpx's failures whether the request left."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest
from packetboat.errors import (
    ConnectionFailed,
    NotDone,
    PacketboatError,
    UnknownOutcome,
    UntrustedServer,
)
from packetboat.transport import AsyncHttpxTransport, HttpxTransport, Request
from packetboat.transport.library import httpx

URL = "http://boat.example:8080/mq/"
POST = Request("POST", "/topics/a%2Fb/messages", {"Packetboat-Key": "k"}, b"body", timeout_s=5)
GET = Request("GET", "/topics")


class Inner(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends the body, if `begins`, and fails or answers."""

    def __init__(self, error: Exception | None = None, begins: bool = True, waits: bool = False):
        self.error = error
        self.begins = begins
        self.waits = waits
        self.seen: httpx.Request | None = None
        self.body = b""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.seen = request
        if self.begins:
            self.body = b"".join(cast(Iterator[bytes], request.stream))
        if self.error is not None:
            raise self.error
        return httpx.Response(200, content=b"ok")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen = request
        if self.begins:
            self.body = b"".join(
                [part async for part in cast(AsyncIterator[bytes], request.stream)]
            )
        if self.waits:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return httpx.Response(200, content=b"ok")


def outcome(inner: Inner, request: Request) -> PacketboatError:
    with pytest.raises(PacketboatError) as caught:
        HttpxTransport(URL, None, inner).send(request)
    return caught.value


async def async_outcome(inner: Inner, request: Request) -> PacketboatError:
    with pytest.raises(PacketboatError) as caught:
        await AsyncHttpxTransport(URL, None, inner).send(request)
    return caught.value


CASES: dict[str, tuple[Exception, bool, Request, type[PacketboatError]]] = {
    "refused": (httpx.ConnectError(""), False, GET, ConnectionFailed),
    "connect-timeout": (httpx.ConnectTimeout(""), False, GET, ConnectionFailed),
    "no-connection-free": (httpx.PoolTimeout(""), False, GET, ConnectionFailed),
    "proxy-refuses": (httpx.ProxyError(""), False, GET, ConnectionFailed),
    "closed-before-the-body": (httpx.ReadError(""), False, POST, ConnectionFailed),
    "closed-after-the-body": (httpx.ReadError(""), True, POST, UnknownOutcome),
    "reset-in-the-body": (httpx.WriteError(""), True, POST, UnknownOutcome),
    "no-body-to-wait-for": (httpx.ReadError(""), False, GET, UnknownOutcome),
    "no-answer": (httpx.ReadTimeout(""), True, POST, UnknownOutcome),
    "nonsense": (httpx.RemoteProtocolError(""), True, POST, UnknownOutcome),
    "not-to-be-written": (httpx.LocalProtocolError(""), False, GET, NotDone),
}


@pytest.mark.parametrize("case", CASES)
async def test_failures(case: str) -> None:
    error, begins, request, kind = CASES[case]
    assert type(outcome(Inner(error, begins), request)) is kind
    assert type(await async_outcome(Inner(error, begins), request)) is kind


async def test_a_bad_certificate_is_told_apart() -> None:
    error = httpx.ConnectError("")
    error.__cause__ = ssl.SSLCertVerificationError("self-signed")
    assert type(outcome(Inner(error, begins=False), GET)) is UntrustedServer
    assert type(await async_outcome(Inner(error, begins=False), GET)) is UntrustedServer


@pytest.mark.parametrize(("begins", "kind"), [(True, UnknownOutcome), (False, ConnectionFailed)])
async def test_time_is_over_before_or_after_the_body_left(
    begins: bool, kind: type[PacketboatError]
) -> None:
    inner = Inner(begins=begins, waits=True)
    assert type(await async_outcome(inner, POST._replace(timeout_s=0.05))) is kind


def test_what_is_sent() -> None:
    inner = Inner()
    HttpxTransport(URL, None, inner).send(POST)
    assert inner.seen is not None
    assert str(inner.seen.url) == "http://boat.example:8080/mq/topics/a%2Fb/messages"
    assert inner.body == b"body"
    assert dict(inner.seen.headers) == {
        "host": "boat.example:8080",
        "user-agent": "packetboat-python",
        "packetboat-key": "k",
        "content-length": "4",
    }


def test_a_get_announces_no_body_and_an_empty_post_does() -> None:
    inner = Inner()
    HttpxTransport(URL, None, inner).send(GET)
    assert "content-length" not in cast(Any, inner.seen).headers
    HttpxTransport(URL, None, inner).send(Request("POST", "/jobs/a:cancel"))
    assert cast(Any, inner.seen).headers["content-length"] == "0"


def test_the_steps_of_a_try_share_its_time() -> None:
    """The time that connecting took is not left for reading."""
    inner = Inner()
    HttpxTransport(URL, None, inner).send(POST)
    timeouts = cast(Any, inner.seen).extensions["timeout"]
    assert timeouts["connect"] == 5.0
    assert 0 < timeouts["read"] < 5.0
