"""Defines the interface to the other forwarders, which `fleet/links/` implements.

A *link* is the internal connection between two subscribe forwarders; each pair has one. Over it go
*requests* (an HTTP operation that runs at the forwarder that owns what it is about, its answer
streamed back), *questions* (one small message, one answer) and *notes* (told, never answered).
A request for what the receiver does not own (any more) fails with the Problem `misdirected`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from edge.asgi import Handler, Receive, Scope, Send
from edge.problem import Problem

RACE = "packetboat.race"
"""The scope key of a request that other forwarders were asked too: an async callable.

It returns True for the one that may answer with messages. A forwarder that is told False answers
nothing and keeps nothing.
"""

FORWARDED = "packetboat.forwarded"
"""Scope key: the request came over a link, and is to be served from what is owned here."""

PART = "packetboat.part"
"""Scope key of what an owner proxy asks of its own process: as FORWARDED, the part that is here."""


class PeerGone(ConnectionError):
    """The link ended before the request, or question, was answered: nobody knows what was done."""


class Peer(Protocol):
    """Another forwarder, as long as its link is open."""

    @property
    def incarnation(self) -> bytes: ...

    async def request(
        self,
        operation: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        race: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """Runs the peer's local handler of `operation` (method, space, path template) on this
        request and passes its answer to `send`, with back pressure.

        The peer's last `send` returns once ours has; if ours raises ClientGone, or this call is
        cancelled, so does the peer's: what was leased is released. Raises PeerGone, and the
        Problem that the peer's handler raised before it answered. `race` is called when the peer
        could answer with messages.
        """
        ...

    async def ask(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        """Return the answer of the peer's `answers(subject)`; raises PeerGone,
        TimeoutError, Problem.
        """
        ...

    def note(self, subject: str, body: bytes) -> bool:
        """Send a note. False: not sent, the link is closed or backed up."""
        ...


class Links(Protocol):
    """Sends and serves the calls between this forwarder and its peers."""

    def peer(self, incarnation: bytes) -> Peer | None:
        """Return the peer; None while there is no open link to it."""
        ...

    def peers(self) -> list[Peer]: ...

    def serve(self, operation: str, handler: Handler) -> None:
        """Run a handler for the requests of peers for an operation."""
        ...

    def answers(self, subject: str, answer: Callable[[bytes, bytes], Awaitable[bytes]]) -> None:
        """Call `answer` with the peer's incarnation and the body; a Problem it raises is
        raised there.
        """
        ...

    def hears(self, subject: str, hear: Callable[[bytes, bytes], None]) -> None:
        """Call `hear` with the incarnation of the peer that told it, and the body."""
        ...

    def on_peer(self, changed: Callable[[bytes, bool], None]) -> None:
        """Call `changed` with an incarnation when its link has opened (True) or ended."""
        ...

    def tell(self, subject: str, body: bytes) -> None:
        """Send a note to every peer."""
        ...


def misdirected() -> Problem:
    """Return a 421, between forwarders only: nothing was done, and the asker looks up the
    owner anew.
    """
    return Problem.of(
        "misdirected",
        "This forwarder does not own what the request is about.",
        retry_after_s=1.0,
    )


def is_misdirected(error: BaseException) -> bool:
    return isinstance(error, Problem) and error.slug == "misdirected"
