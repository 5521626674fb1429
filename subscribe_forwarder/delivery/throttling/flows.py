"""Keeps the capacity that consumers report, which all forwarders know within a second.

The forwarder that gets a report writes it to Postgres, and then sends a note to every peer. Notes
can be lost, and come in any order. The change feed loses nothing, and leads to the row. A version
tells which report is later.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
import structlog

from edge.lifetime import keep_running
from metadata.errors import MetadataError
from metadata.subscriptions.flows import Flow, SubscriptionFlowRepository
from metadata.types import Change, ChangeKind
from subscribe_forwarder.delivery.throttling import metrics
from subscribe_forwarder.peers import Links

SUBJECT = "flow"
RETRY_S = 0.5
TIDY_S = 10.0
_log = structlog.get_logger("packetboat.subscribe")


class Capacity(NamedTuple):
    """The capacity that holds now for a subscription."""

    messages_per_second: float | None
    max_outstanding: int | None
    reason: str
    until_s: float
    """The end of its validity, by the clock of the book."""
    version: int


class Note(msgspec.Struct, frozen=True, array_like=True):
    """A note to peers."""

    subscription_uid: bytes
    messages_per_second: float | None
    max_outstanding: int | None
    reason: str
    left_s: float
    version: int


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Note).decode


class FlowReports:
    """Keeps the reports of one process; it listens to the change feed."""

    def __init__(
        self,
        flows: SubscriptionFlowRepository,
        links: Links | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`links` None: this forwarder is alone."""
        self._flows = flows
        self._links = links
        self._clock = clock
        self._said: dict[bytes, Capacity] = {}
        self._unread = True
        self._stale: set[tuple[bytes, bytes]] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[bytes], None]] = []
        if links is not None:
            links.hears(SUBJECT, self._hear)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            keep_running(self._run, "reading of flows")
        )

    def add_listener(self, changed: Callable[[bytes], None]) -> None:
        """Call `changed` with the uid of a subscription of which something else holds now."""
        self._listeners.append(changed)

    async def close(self) -> None:
        """Stop. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def of(self, subscription_uid: bytes) -> Capacity | None:
        """Return the capacity that holds now for a subscription, or None."""
        said = self._said.get(subscription_uid)
        if said is None or said.until_s > self._clock():
            return said
        del self._said[subscription_uid]
        return None

    def tell(self, flow: Flow) -> None:
        """Note a capacity that was written a moment ago: it holds here at once, and
        elsewhere in a moment.
        """
        note = Note(
            flow.subscription_uid,
            flow.messages_per_second,
            flow.max_outstanding,
            flow.reason,
            flow.left_s,
            flow.version,
        )
        self._take(note)
        metrics.changes.labels("flow" if flow.left_s > 0 else "flow_ended").inc()
        if self._links is not None:
            self._links.tell(SUBJECT, _encode(note))

    async def on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind is ChangeKind.FLOW:
                self._stale.add((change.tenant_id, change.uid))
            elif change.kind is ChangeKind.RESET:
                self._unread = True
        if self._stale or self._unread:
            self._wake.set()

    # Within.

    def _hear(self, peer: bytes, body: bytes) -> None:
        try:
            self._take(_decode(body))
        except msgspec.MsgspecError as error:
            _log.error("a flow is not understood", peer=peer.hex(), error=str(error))

    def _take(self, note: Note) -> None:
        uid = note.subscription_uid
        known = self._said.get(uid)
        if known is not None and known.version >= note.version:
            return
        if note.left_s > 0:
            until_s = self._clock() + note.left_s
            rate, most = note.messages_per_second, note.max_outstanding
            self._said[uid] = Capacity(rate, most, note.reason, until_s, note.version)
        elif self._said.pop(uid, None) is None:
            return
        metrics.flows.set(len(self._said))
        self._changed(uid)

    def _changed(self, uid: bytes) -> None:
        for listener in self._listeners:
            listener(uid)

    def _take_rows(self, rows: Iterable[Flow]) -> None:
        for row in rows:
            rate, most = row.messages_per_second, row.max_outstanding
            uid = row.subscription_uid
            self._take(Note(uid, rate, most, row.reason, row.left_s, row.version))

    async def _run(self) -> None:
        while True:
            try:
                await self._read()
            except MetadataError as error:
                _log.warning("flows not read", error=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(TIDY_S):
                    await self._wake.wait()
            self._wake.clear()
            for uid in list(self._said):
                self.of(uid)
            metrics.flows.set(len(self._said))

    async def _read(self) -> None:
        """Read the flows. Raises MetadataError; then call it again."""
        if self._unread:
            rows = await self._flows.all()
            self._unread = False
            held = {row.subscription_uid for row in rows}
            for uid in [uid for uid in self._said if uid not in held]:
                del self._said[uid]
                self._changed(uid)
            self._take_rows(rows)
        while self._stale:
            some = list(self._stale)
            self._take_rows(await self._flows.load(some))
            self._stale.difference_update(some)
