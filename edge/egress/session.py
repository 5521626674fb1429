"""Sends outbound HTTP requests that a guard has checked.

The rules are checked at three places, each of which would be enough: the URL before anything else;
every address of a name when it is looked up (one that is denied refuses all, since a name that
mixes them is an attack); and the very address that a socket is about to connect to, so that a name
that changes in between gains nothing. No redirect is followed, no environment variable is read, no
cookie is kept and no body is unpacked. A pool of connections belongs to one guard, so that a tenant
cannot reach over a connection what only another tenant may reach.
"""

from __future__ import annotations

import functools
import re
import socket
import ssl
from contextvars import ContextVar
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from edge.egress.guard import MAX_URL_CHARS, EgressDenied, Guard, Target
from edge.egress.resolver import SystemResolver

KEEPALIVE_S = 4.0
"""Shorter than the 5 s after which some servers close: a request on its way then would be lost."""
READ_BUFFER_BYTES = 16_384
MAX_HEADER_BYTES = 8190
MAX_HEADERS = 100
MAX_INTERIM = 16
"""Responses 1xx before an answer; only an attacker sends more than two or three."""
MAX_FRAMING_BYTES = 32_768
"""Bytes beyond a quarter of a body's length for sizes of chunks, extensions and trailers."""
_AT_ONCE_BYTES = 16_384
_CHECKED_MAX = 10_000


class BodyTooLong(Exception):
    """The body has more bytes than its reader accepts; the connection is closed."""


class _Attempt:
    """A connection that is being made; the tasks that make it share it."""

    __slots__ = ("denied", "target")

    def __init__(self, target: Target) -> None:
        """Begin an attempt to connect to a target."""
        self.target = target
        self.denied: EgressDenied | None = None


_attempt: ContextVar[_Attempt | None] = ContextVar("egress_attempt", default=None)


class GuardedResolver(AbstractResolver):
    """A resolver that refuses a name if any of its addresses is denied."""

    def __init__(self, guard: Guard, inner: AbstractResolver) -> None:
        self._guard = guard
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises EgressDenied, OSError."""
        found = await self._inner.resolve(host, port, family)
        attempt = _attempt.get()
        # A look-up without a connection is held to the strictest rules.
        target = attempt.target if attempt else Target("https", host.lower().rstrip("."), port)
        for each in found:
            try:
                self._guard.check_address(target, each["host"])
            except EgressDenied as error:
                raise EgressDenied(f"{host}: {error}") from None
        return found

    async def close(self) -> None:
        """Leave the inner resolver open: its owner closes it."""


class _Answers(ResponseHandler):
    """Ends responses that cost more to read than to send.

    Such are interim responses without end, which the client reads one after the other without
    waiting, and bodies in very small chunks. They end here before the event loop is busy with them
    for longer than any time-out.
    """

    _interim = 0
    _body: StreamReader | None = None
    _came = 0
    """Bytes since the head of the response."""

    def data_received(self, data: bytes) -> None:
        """Parse bytes of a response; end it if they are too much framing for their body."""
        # Feed a part at a time, so that no more is parsed than is needed to see that it is too
        # much.
        for at in range(0, len(data) or 1, _AT_ONCE_BYTES):
            piece = data[at : at + _AT_ONCE_BYTES]
            super().data_received(piece)
            self._came += len(piece)
            if self._interim > MAX_INTERIM:
                self._refuse(f"over {MAX_INTERIM} interim responses")
                return
            body = self._body
            if body is not None and self._came > MAX_FRAMING_BYTES + 1.25 * body.total_bytes:
                self._refuse("more framing than body")
                return

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Take the head of a response, and count interim responses in a row."""
        message, body = data
        interim = 100 <= message.code < 200 and message.code != 101
        self._interim = self._interim + 1 if interim else 0
        self._body, self._came = None if interim else body, 0
        if self._interim <= MAX_INTERIM:
            super().feed_data(data, size)

    def _refuse(self, why: str) -> None:
        error = HttpProcessingError(message=why)
        if self.transport is not None:
            self.transport.close()
        if self._body is not None:
            self._body.set_exception(aiohttp.ClientPayloadError(why), error)
        self.set_exception(error)


class GuardedConnector(aiohttp.TCPConnector):
    """A connector that checks the URL of each request, and each address before a socket connects to
    it.
    """

    def __init__(
        self,
        guard: Guard,
        resolver: AbstractResolver | None,
        *,
        limit: int,
        limit_per_host: int,
        ssl_context: ssl.SSLContext | None = None,
        proxied: bool = False,
    ) -> None:
        """Make a connector; `proxied` says that all requests must go to a proxy, which checks the
        addresses.
        """
        self._guard = guard
        self._proxied = proxied
        self._own_resolver = SystemResolver() if resolver is None else None
        resolver = resolver or self._own_resolver
        assert resolver is not None
        self._targets: dict[tuple[str, str | None, int | None], Target] = {}
        super().__init__(
            resolver=resolver if proxied else GuardedResolver(guard, resolver),
            use_dns_cache=False,  # one asker would wait for the question of another
            limit=limit,
            limit_per_host=limit_per_host,
            keepalive_timeout=KEEPALIVE_S,
            ssl=True if ssl_context is None else ssl_context,
            socket_factory=None if proxied else self._open_socket,
        )
        protocol: type[ResponseHandler] = _Answers
        self._factory = functools.partial(protocol, loop=self._loop)

    async def connect(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Any:
        """Connect for a request. Raises EgressDenied, and what any connector raises."""
        target = self._target_of(req.url)
        if self._proxied:
            if req.proxy is None:
                raise EgressDenied("all requests go over the proxy, and this one names none")
            return await super().connect(req, traces, timeout)
        attempt = _Attempt(target)
        token = _attempt.set(attempt)
        try:
            connection = await super().connect(req, traces, timeout)
        except (aiohttp.ClientError, OSError) as error:
            if attempt.denied is not None:
                raise attempt.denied from error
            raise
        finally:
            _attempt.reset(token)
        return connection

    async def close(self, *, abort_ssl: bool = False) -> None:
        await super().close(abort_ssl=abort_ssl)
        if self._own_resolver is not None:
            await self._own_resolver.close()

    def _target_of(self, url: URL) -> Target:
        """Return the checked target of a URL; raise EgressDenied for a URL that is not allowed."""
        key = url.scheme, url.raw_host, url.port
        target = self._targets.get(key)
        if target is None:
            target = self._guard.target(*key)
            if len(self._targets) >= _CHECKED_MAX:
                self._targets.clear()
            self._targets[key] = target
        return target

    def _open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Make a socket for aiohttp, which connects it to the address of `info` and to no other."""
        family, kind, proto, _, address = info
        attempt = _attempt.get()
        assert attempt is not None, "a connection that nobody asked for"
        try:
            self._guard.check_address(attempt.target, address[0])
        except EgressDenied as error:
            attempt.denied = error
            # aiohttp takes it as an address that does not work
            raise OSError(str(error)) from error
        return socket.socket(family, kind, proto)


def check_url(guard: Guard, text: str) -> Target:
    """Check a URL as far as possible before its name is looked up. Raises EgressDenied."""
    if len(text) > MAX_URL_CHARS:
        raise EgressDenied(f"the URL has over {MAX_URL_CHARS} characters")
    if any(char <= " " or char in "\\\x7f" for char in text):
        raise EgressDenied("the URL has spaces, backslashes or control characters")
    try:
        url = URL(text)
        if url.user is not None or url.password is not None or "@" in _authority(text):
            raise EgressDenied("the URL has credentials in it: use a header")
        if url.raw_fragment or text.endswith("#"):
            raise EgressDenied("the URL has a fragment, which is never sent")
        return guard.target(url.scheme, url.raw_host, url.port)
    except (ValueError, TypeError):
        raise EgressDenied("this is no URL with a host, and a port from 1 to 65535") from None


def guarded_session(
    guard: Guard,
    *,
    resolver: AbstractResolver | None = None,
    limit: int = 100,
    limit_per_host: int = 0,
    ssl_context: ssl.SSLContext | None = None,
    proxy: str | None = None,
    timeout: aiohttp.ClientTimeout | None = None,
    watch_redirects: bool = True,
) -> aiohttp.ClientSession:
    """Return a session whose requests raise EgressDenied if the guard forbids them or they are
    redirected.

    `watch_redirects=False` saves some microseconds a request, for callers that make all requests
    with `allow_redirects=False`. A given resolver is closed by its owner.
    """
    connector = GuardedConnector(
        guard,
        resolver,
        limit=limit,
        limit_per_host=limit_per_host,
        ssl_context=ssl_context,
        proxied=proxy is not None,
    )
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        raise_for_status=False,
        proxy=proxy,
        trace_configs=[trace] if watch_redirects else None,
        timeout=timeout or aiohttp.ClientTimeout(total=30, sock_connect=10),
        read_bufsize=READ_BUFFER_BYTES,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        max_headers=MAX_HEADERS,
        headers={"Accept-Encoding": "identity"},
    )


def _authority(text: str) -> str:
    return re.split("[/?#]", text.partition("//")[2], maxsplit=1)[0]


async def read_capped(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the whole body.

    Raises BodyTooLong if it has more than `limit` bytes, and what reading from aiohttp raises.
    """
    chunks, total = [], 0
    async for chunk in response.content.iter_any():
        total += len(chunk)
        if total > limit:
            response.close()
            raise BodyTooLong(f"the body has more than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _refuse_redirect(
    session: aiohttp.ClientSession, context: Any, params: aiohttp.TraceRequestRedirectParams
) -> None:
    raise EgressDenied(
        f"redirects are not followed: {params.url} answered {params.response.status}"
    )
