"""Issues tickets that open a subscription's stream for an EventSource, which sends no header.

A ticket is the caller's own token, sealed together with when the ticket ends, and bound to the
subscription. Invariant: a ticket opens nothing but that stream, for a minute; the stream is
open for as long as the token would keep it open. Any process with the seal keys opens it, and
nothing is stored.
"""

from __future__ import annotations

import struct
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from urllib.parse import quote

import msgspec

from auth.errors import TokenRefused
from edge.asgi import Receive, Route, Scope, Send, header, path_param, read_body, respond
from edge.parameters import Query
from edge.problem import Problem
from edge.sealing import SealBroken, Sealer
from gateway.middleware.auth import bearer_token
from openapi.consume import OPERATIONS, StreamTicket

STREAM = "/subscriptions/{name}/messages:stream"
PARAMETER = b"ticket="
TICKET_SECONDS = 60
MAX_BODY_BYTES = 1024
_ENDS = struct.Struct(">Q")
_AUTHORIZATION = b"authorization"


class StreamTickets:
    """One per process.

    `sealer` is None where tickets are not switched on. `find` raises NotFound where the caller's
    tenant has no subscription of the name in the path.
    """

    def __init__(
        self,
        sealer: Sealer | None,
        find: Callable[[Scope], Awaitable[object]],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._sealer = sealer
        self._find = find
        self._wall = wall

    def routes(self) -> list[Route]:
        return [Route(OPERATIONS["createStreamTicket"], self.create)]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 with a ticket, which is never shown again."""
        await read_body(scope, receive, MAX_BODY_BYTES)
        if self._sealer is None:
            raise Problem.of(
                "stream-tickets-off",
                "This installation gives no stream tickets; PACKETBOAT_STREAM_TICKETS=1 does.",
            )
        await self._find(scope)
        name, token = path_param(scope, "name"), bearer_token(header(scope, _AUTHORIZATION))
        ends_s = int(self._wall()) + TICKET_SECONDS
        sealed = self._sealer.seal(_ENDS.pack(ends_s) + token, _purpose(name))
        ticket = urlsafe_b64encode(sealed).decode().rstrip("=")
        path = STREAM.replace("{name}", quote(name, safe=""))
        answer = StreamTicket(
            ticket, datetime.fromtimestamp(ends_s, UTC), f"{path}?ticket={ticket}"
        )
        headers = [(b"cache-control", b"no-store")]
        await respond(send, 201, msgspec.json.encode(answer), headers=headers)

    def authorization(self, template: str, scope: Scope) -> bytes | None:
        """Return the Authorization header for which the query's ticket stands; put it into the
        scope as well.

        Returns None without a ticket. Raises TokenRefused.
        """
        if self._sealer is None or template != STREAM or PARAMETER not in scope["query_string"]:
            return None
        ticket = Query(scope).text("ticket")
        if ticket is None:
            return None
        padded = ticket + "=" * (-len(ticket) % 4)
        purpose = _purpose(path_param(scope, "name"))
        try:
            opened = self._sealer.open(urlsafe_b64decode(padded), purpose)
        except (SealBroken, Base64Error, ValueError) as error:
            raise TokenRefused from error
        if _ENDS.unpack_from(opened)[0] <= self._wall():
            raise TokenRefused
        authorization = b"Bearer " + opened[_ENDS.size :]
        scope["headers"] = [*scope["headers"], (_AUTHORIZATION, authorization)]
        return authorization


def _purpose(name: str) -> str:
    return f"stream ticket of {name}"
