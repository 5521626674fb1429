"""Sends and receives the messages about backlogs between forwarders.

A peer names the subscriptions that it wants in a question, `backlog.filter`; the answer has their
present state. It asks when the link has opened, when it wants something else, and once in
`REFRESH_S` in case a note was lost. Later changes are sent as notes, `backlog`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import structlog

from edge.lifetime import keep_running
from edge.problem import Problem
from metadata.errors import MetadataError
from subscribe_forwarder.fleet.backlogs.local import Holdings
from subscribe_forwarder.fleet.backlogs.part import (
    Filter,
    Part,
    Wanted,
    decode_filter,
    decode_parts,
    encode_filter,
    encode_parts,
)
from subscribe_forwarder.fleet.backlogs.tracker import Tracker
from subscribe_forwarder.peers import Links, Peer, PeerGone

if TYPE_CHECKING:
    from subscribe_forwarder.fleet.backlogs.backlogs import Backlogs

SUBJECT = "backlog"
FILTER = "backlog.filter"
AT_ONCE = 500
"""Subscriptions in one note or question."""
ASK_TIMEOUT_S = 2.0
RETRY_S = 0.5
REFRESH_S = 60.0
_log = structlog.get_logger("packetboat.subscribe")


class Exchange:
    """Exchanges the messages of one process over its links."""

    def __init__(
        self,
        links: Links,
        listener: Backlogs,
        tracker: Tracker,
        holdings: Holdings,
        on_want: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_want` is called when the tracker has news for a peer."""
        self._links = links
        self._listener = listener
        self._tracker = tracker
        self._holdings = holdings
        self._on_want = on_want
        self._clock = clock
        self._asked: dict[bytes, dict[bytes, Wanted]] = {}
        """The subscriptions that we want, as far as each peer knows."""
        self._ask = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        links.answers(FILTER, self._filtered)
        links.hears(SUBJECT, self._heard)
        links.on_peer(self._peer_changed)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            keep_running(self._run, "exchange of backlogs")
        )

    async def close(self) -> None:
        """Close it; idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def want_changed(self) -> None:
        """Note that the listener wants other subscriptions."""
        self._ask.set()

    def tell(self, parts: Mapping[bytes, Sequence[Part]]) -> None:
        """Tell each peer the parts that it wants.

        Parts that could not be sent are counted and told again.
        """
        for incarnation, some in parts.items():
            peer = self._links.peer(incarnation)
            if peer is None:
                continue  # its link has ended, and with it what it wanted
            for at in range(0, len(some), AT_ONCE):
                chunk = some[at : at + AT_ONCE]
                if not peer.note(SUBJECT, encode_parts(chunk)):
                    for part in chunk:
                        self._tracker.again(part.subscription_uid)

    # Messages from peers.

    def _heard(self, incarnation: bytes, body: bytes) -> None:
        try:
            parts = decode_parts(body)
        except msgspec.DecodeError as error:
            _log.error("backlogs of a peer are not readable", error=repr(error))
            return
        self._listener.heard(incarnation, parts)

    async def _filtered(self, incarnation: bytes, body: bytes) -> bytes:
        try:
            filter_ = decode_filter(body)
        except msgspec.DecodeError as error:
            raise Problem.of("malformed-body", str(error)) from error
        try:
            await self._holdings.load(filter_.add)
        except MetadataError as error:
            _log.warning("cursors not loaded for a peer", error=repr(error))
        self._tracker.unwant(incarnation, filter_.drop)
        if self._links.peer(incarnation) is None:
            return encode_parts([])  # it has gone meanwhile
        now_s = self._clock()
        parts = [self._tracker.want(incarnation, wanted, now_s) for wanted in filter_.add]
        self._on_want()
        return encode_parts([part for part in parts if part.shares or part.waiting])

    def _peer_changed(self, incarnation: bytes, is_open: bool) -> None:
        self._asked.pop(incarnation, None)
        if is_open:
            self._ask.set()
        else:
            self._tracker.unwant_all(incarnation)
            self._listener.gone(incarnation)

    # Messages to peers.

    async def _run(self) -> None:
        refreshed_s = self._clock()
        while True:
            try:
                async with asyncio.timeout(max(0.0, refreshed_s + REFRESH_S - self._clock())):
                    await self._ask.wait()
            except TimeoutError:
                refreshed_s = self._clock()
                self._asked.clear()
            self._ask.clear()
            done = await asyncio.gather(*(self._ask_peer(peer) for peer in self._links.peers()))
            if not all(done):
                await asyncio.sleep(RETRY_S)
                self._ask.set()

    async def _ask_peer(self, peer: Peer) -> bool:
        """Says what is wanted other than it knows; False: not all of it has arrived."""
        wanted = self._listener.wanted
        asked = self._asked.setdefault(peer.incarnation, {})
        drop = [uid for uid in asked if uid not in wanted]
        add = [one for uid, one in wanted.items() if asked.get(uid) != one]
        try:
            for at in range(0, max(len(add), len(drop)), AT_ONCE):
                filter_ = Filter(tuple(add[at : at + AT_ONCE]), tuple(drop[at : at + AT_ONCE]))
                body = await peer.ask(FILTER, encode_filter(filter_), ASK_TIMEOUT_S)
                self._listener.heard(peer.incarnation, decode_parts(body))
                for uid in filter_.drop:
                    asked.pop(uid, None)
                asked.update({one.subscription_uid: one for one in filter_.add})
        except PeerGone:
            return True  # asked when it is back
        except (TimeoutError, Problem, msgspec.DecodeError) as error:
            _log.warning("a peer does not tell its backlogs", error=repr(error))
            return False
        return True
