"""Passes leases from one owner to the next, so that a move delivers no message twice.

A forwarder that gives a unit away reports its leases to every peer before it announces the release,
and remembers them itself; the forwarder that claims the unit begins with them. Nothing depends on
it: if a note is lost, too old, or has more than `MAX_HANDED` leases, those messages are delivered
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import msgspec
import structlog

from metadata.types import CursorKey, Epoch
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.state.inherited import InheritedLease
from subscribe_forwarder.peers import Links

SUBJECT = "leases"
KEEP_MS = 15_000
"""Milliseconds by which the next owner has claimed the unit."""
MAX_HANDED = 20_000
"""The limit for one cursor; each lease becomes a row of `deliveries` at the next owner."""
MAX_IN_A_NOTE = 4_000
MAX_KEPT = 500_000
_log = structlog.get_logger("packetboat.subscribe")


class _Group(msgspec.Struct, frozen=True, array_like=True):
    """Leases that end together."""

    left_ms: int
    epoch_n: int
    offsets: list[int]


class _Note(msgspec.Struct, frozen=True, array_like=True):
    """Leases of one cursor, or a part of them."""

    tenant_id: bytes
    subscription_uid: bytes
    partition: int
    lane: int
    generation: int
    epoch: Epoch
    """The epoch of the owner that delivered them, or that was told of them first."""
    groups: list[_Group]


class _ReportedCursor(msgspec.Struct):
    """All that was told of one cursor by one owner."""

    generation: int
    epoch: Epoch
    at_ms: int
    """The last part of it."""
    leases: dict[int, InheritedLease]
    """Leases by offset."""

    @property
    def age(self) -> tuple[int, Epoch]:
        """Return the age of a note; a note with a larger one is newer."""
        return self.generation, self.epoch


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Note).decode


class Handover:
    """One per process; without links there is nobody to tell. `now_ms` is what leases go by."""

    def __init__(self, links: Links | None, now_ms: Callable[[], int]) -> None:
        self._links = links
        self._now_ms = now_ms
        self._heard: dict[CursorKey, _ReportedCursor] = {}
        """The one whose last part is the oldest first."""
        self._kept = 0
        if links is not None:
            links.hears(SUBJECT, self._hear)

    def give(self, readers: Iterable[Reader]) -> None:
        """Report the leases of readers that are given away; nothing more of them is delivered."""
        if self._links is None:
            return
        for reader in readers:
            leases = reader.ledger.to_hand()
            if not leases:
                continue
            cursor = reader.cursor
            self._tell(cursor.key, cursor.generation, cursor.epoch, leases)

    def pass_on(self, keys: Iterable[CursorKey]) -> None:
        """Report the leases of cursors that no reader took over here."""
        for key in keys if self._heard else ():
            heard = self._heard.get(key)
            if heard is not None:
                self._tell(key, *heard.age, list(heard.leases.values()))

    def take(self, key: CursorKey, generation: int) -> Sequence[InheritedLease]:
        """Return the leases that were reported for the cursor lately; the next call returns
        none.
        """
        self._forget_old()
        heard = self._heard.pop(key, None)
        if heard is None:
            return ()
        self._kept -= len(heard.leases)
        return list(heard.leases.values()) if heard.generation == generation else ()

    def _tell(
        self, key: CursorKey, generation: int, epoch: Epoch, leases: list[InheritedLease]
    ) -> None:
        leases.sort()
        del leases[MAX_HANDED:]
        for at in range(0, len(leases), MAX_IN_A_NOTE):
            if self._links is not None:
                groups = self._groups(leases[at : at + MAX_IN_A_NOTE])
                self._links.tell(SUBJECT, _encode(_Note(*key, generation, epoch, groups)))
        self._keep(key, generation, epoch, leases)

    def _groups(self, leases: Sequence[InheritedLease]) -> list[_Group]:
        now_ms = self._now_ms()
        return [
            _Group(deadline_ms - now_ms, epoch_n, [each.offset for each in some])
            for (deadline_ms, epoch_n), some in groupby(leases, lambda each: each[:2])
        ]

    def _hear(self, peer: bytes, body: bytes) -> None:
        try:
            note = _decode(body)
        except msgspec.MsgspecError as error:
            _log.error("leases not understood", peer=peer.hex(), error=str(error))
            return
        now_ms = self._now_ms()
        told = [
            InheritedLease(now_ms + group.left_ms, group.epoch_n, offset)
            for group in note.groups
            for offset in group.offsets
        ]
        key = CursorKey(note.tenant_id, note.subscription_uid, note.partition, note.lane)
        self._keep(key, note.generation, note.epoch, told)

    def _keep(
        self, key: CursorKey, generation: int, epoch: Epoch, told: Sequence[InheritedLease]
    ) -> None:
        """Keep reported leases for `take`, with those that are known already; reports of an
        older epoch do not count.
        """
        self._forget_old()
        if self._kept + len(told) > MAX_KEPT:
            return
        heard = _ReportedCursor(generation, epoch, self._now_ms(), {})
        known = self._heard.get(key)
        if known is not None:
            if known.age > heard.age:
                return
            del self._heard[key]
            self._kept -= len(known.leases)
            if known.age == heard.age:
                heard.leases = known.leases
        heard.leases.update((lease.offset, lease) for lease in told)
        self._kept += len(heard.leases)
        self._heard[key] = heard

    def _forget_old(self) -> None:
        oldest_ms = self._now_ms() - KEEP_MS
        while self._heard:
            key, heard = next(iter(self._heard.items()))
            if heard.at_ms > oldest_ms:
                return
            self._kept -= len(heard.leases)
            del self._heard[key]
