"""Sends one POST to an endpoint, and returns its outcome.

An answer is here within the time-out, however the endpoint behaves, and a bounded number of bytes
is held: 1 KiB of the body is kept, the rest is read past up to a limit so that the connection can
be used again, and a connection that still has something to say is closed.
"""

from __future__ import annotations

import asyncio
import io
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

import aiohttp
from aiohttp.abc import AbstractResolver

from edge.egress.guard import EgressDenied, Guard
from edge.egress.resolver import SystemResolver, asking
from edge.egress.session import guarded_session
from subscribe_forwarder.push.requests import PushRequest
from subscribe_forwarder.push.verdict import Answer

EXCERPT_BYTES = 1024
MAX_RESPONSE_BYTES = 1024 * 1024
CONNECT_S = 10.0
"""The limit of looking up the name, connecting and TLS together, if the time-out is not shorter."""
MAX_CONNECTIONS = 20_000
"""None of them are a host's: many tenants may have theirs at one, and each is limited by itself."""
MAX_SESSIONS = 256
"""Lists of exceptions that have connections of their own at a time."""
MAX_DETAIL_CHARS = 500
_LARGE_BYTES = 512 * 1024


class Rules(Protocol):
    """The rules for the addresses that a tenant's endpoints may have."""

    async def guard_of(self, tenant_id: bytes) -> Guard:
        """Return the guard, kept by the implementation; a MetadataError where it can't be
        told now.
        """


class OneRule:
    """One rule for all tenants."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def guard_of(self, tenant_id: bytes) -> Guard:
        return self._guard


class Sender:
    """Sends requests of one process; connections are kept apart for each set of rules."""

    def __init__(
        self,
        rules: Rules,
        *,
        proxy: str | None = None,
        resolver: AbstractResolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._rules = rules
        self._proxy = proxy
        self._given_resolver = resolver
        self._resolver: AbstractResolver | None = None
        self._ssl_context = ssl_context
        self._sessions: OrderedDict[Guard, aiohttp.ClientSession] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def send(self, request: PushRequest, timeout_s: float) -> Answer:
        """Send a request, and return the answer or the failure.

        Never raises for anything that an endpoint does or a request is. Raises MetadataError if the
        tenant's rules cannot be read. Cancelled, it closes its connection.
        """
        session = self._session(await self._rules.guard_of(request.tenant_id))
        began, body = time.perf_counter(), request.body
        status: int | None = None
        headers: Mapping[str, str] = {}
        excerpt, failure, detail = bytearray(), "", ""
        try:
            with asking(request.tenant_id):
                exchange = await session.post(
                    request.url,
                    data=body if len(body) < _LARGE_BYTES else io.BytesIO(body),
                    headers=request.headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(
                        total=timeout_s, connect=min(CONNECT_S, timeout_s), ceil_threshold=3600
                    ),
                )
            async with exchange as response:
                status, headers = response.status, response.headers
                if not await _read(response, excerpt):
                    failure = "too_long"
                    detail = f"The body has more than {MAX_RESPONSE_BYTES} bytes."
                    response.close()
        except Exception as error:
            failure, detail = _failure_of(error)
            if not failure:
                raise
        latency_s = time.perf_counter() - began
        return Answer(status, headers, bytes(excerpt), latency_s, failure, detail)

    async def close(self) -> None:
        """Ends what is under way."""
        sessions = list(self._sessions.values())
        self._sessions.clear()
        for session in sessions:
            await session.close()
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)
        if self._resolver is not None:
            await self._resolver.close()
            self._resolver = None

    def _session(self, guard: Guard) -> aiohttp.ClientSession:
        """Return the session with the rules of a guard; make it at the first use."""
        session = self._sessions.get(guard)
        if session is not None:
            self._sessions.move_to_end(guard)
            return session
        resolver = self._given_resolver or self._resolver
        if resolver is None:
            resolver = self._resolver = SystemResolver()
        session = guarded_session(
            guard,
            resolver=resolver,
            limit=MAX_CONNECTIONS,
            ssl_context=self._ssl_context,
            proxy=self._proxy,
            watch_redirects=False,
        )
        self._sessions[guard] = session
        if len(self._sessions) > MAX_SESSIONS:
            _, oldest = self._sessions.popitem(last=False)
            task = asyncio.ensure_future(oldest.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        return session


async def _read(response: aiohttp.ClientResponse, excerpt: bytearray) -> bool:
    """Read the body into the excerpt; return False for a body over the limit."""
    total = 0
    async for chunk in response.content.iter_any():
        if total < EXCERPT_BYTES:
            excerpt += chunk[: EXCERPT_BYTES - total]
        total += len(chunk)
        if total > MAX_RESPONSE_BYTES:
            return False
    return True


def _failure_of(error: Exception) -> tuple[str, str]:
    """Return the words of the attempts log; nothing for an error that is not the endpoint's
    doing.
    """
    for kinds, failure, detail in _FAILURES:
        if isinstance(error, kinds):
            return failure, detail or str(error)[:MAX_DETAIL_CHARS]
    return "", ""


_FAILURES: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    # In this order: what is below is wider than what is above.
    ((EgressDenied, aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError), "denied", ""),
    ((TimeoutError,), "timeout", "No whole answer came in time."),
    ((aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError), "tls", ""),
    ((aiohttp.ServerFingerprintMismatch, ssl.SSLError), "tls", ""),
    ((aiohttp.ClientHttpProxyError,), "denied", ""),
    ((aiohttp.ClientConnectorError,), "refused", ""),
    ((aiohttp.ServerDisconnectedError,), "closed", "The connection was closed before an answer."),
    ((aiohttp.ClientPayloadError,), "closed", "The connection was closed within an answer."),
    ((aiohttp.ClientConnectionError, OSError), "closed", ""),
    ((aiohttp.ClientResponseError,), "garbage", "The answer is no HTTP."),
    ((ValueError,), "denied", "A header of the request has characters that none may have."),
)
