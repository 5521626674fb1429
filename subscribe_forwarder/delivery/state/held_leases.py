"""Keeps exactly-once leases as they are written: offsets that each may ack, and has acked.

An ack counts when its lease (epoch and turn) is the one that holds the offset, and once more for
each repeat of it. A *record* keeps the acked offsets of a finished lease by its epoch and turn, as
ranges, for 10 to 15 minutes: repeats find them there, and consuming in order keeps them to one
range. Pure; times are µs of the wall clock, for rows outlive the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from metadata.delivery.deliveries import ACKS_KEPT_S, DeliveryLease
from metadata.types import Epoch
from subscribe_forwarder.delivery.state.ranges import Range, RangeSet

KEPT_US = ACKS_KEPT_S * 1_000_000
_RECORD_US = 300 * 1_000_000
_RECORD_RANGES = 256


class _Held:
    """A lease that holds offsets, or a record, which holds none."""

    __slots__ = ("acked", "epoch", "expires_us", "leased", "number", "turn")

    def __init__(self, number: int, epoch: Epoch, turn: int, expires_us: int) -> None:
        self.number = number
        self.epoch = epoch
        self.turn = turn
        self.expires_us = expires_us
        self.leased: set[int] = set()
        self.acked = RangeSet()

    def row(self) -> DeliveryLease:
        both = RangeSet(self.acked.ranges())
        for low, high in runs(sorted(self.leased)):
            both.add(low, high)
        return DeliveryLease(
            number=self.number,
            epoch_era=self.epoch.era,
            epoch_n=self.epoch.n,
            attempt=self.turn,
            offsets=both.ranges(),
            acked=self.acked.ranges(),
            expires_us=self.expires_us,
        )


class HeldLeases:
    """The leases of one cursor; empty, and never asked, if delivery is not exactly once."""

    def __init__(self, rows: Iterable[DeliveryLease] = ()) -> None:
        self._held: dict[int, _Held] = {}
        self._of: dict[int, _Held] = {}
        self._acked_of: dict[int, _Held] = {}  # acked, under a lease that still holds others
        self._records: dict[int, _Held] = {}
        self._open_records: dict[tuple[Epoch, int], tuple[_Held, int]] = {}
        self._extended: tuple[tuple[Epoch, int, int], _Held] | None = None
        self._unsaved: dict[int, int] = {}  # number → stamp of its last change
        self._sent: dict[int, int] = {}
        self._stamp = 0
        self._next = 1
        for row in rows:
            self._load(row)

    def __bool__(self) -> bool:
        """Return whether any lease or record is kept or has to be written."""
        return bool(self._held or self._records or self._unsaved)

    def offsets(self) -> list[tuple[int, int]]:
        """(offset, expires_us) of all that is leased."""
        return [(offset, held.expires_us) for offset, held in self._of.items()]

    def grant(self, offsets: Sequence[int], epoch: Epoch, turn: int, expires_us: int) -> None:
        """Add a new lease for offsets that have none."""
        assert self._of.keys().isdisjoint(offsets), f"held twice, of {offsets}"
        held = self._new(epoch, turn, expires_us)
        held.leased.update(offsets)
        for offset in offsets:
            self._of[offset] = held

    def extend(self, offset: int, expires_us: int, now_us: int) -> None:
        """Set another deadline; offsets that get the same one in a row share a lease."""
        held = self._of.get(offset)
        if held is None or held.expires_us == expires_us:
            return
        name = (held.epoch, held.turn, expires_us)
        self.drop(offset, now_us)
        if self._extended is None or self._extended[0] != name or not self._extended[1].leased:
            self._extended = name, self._new(*name)
        target = self._extended[1]
        target.leased.add(offset)
        self._of[offset] = target
        self._change(target)

    def holds(self, offset: int, epoch: Epoch, turn: int) -> bool:
        """Return whether the offset is leased, and under this lease."""
        held = self._of.get(offset)
        return held is not None and (held.epoch, held.turn) == (epoch, turn)

    def acked_under(self, offset: int, epoch: Epoch, turn: int) -> bool:
        """Return whether this lease acked the offset."""
        held = self._acked_of.get(offset)
        if held is not None:
            return (held.epoch, held.turn) == (epoch, turn)
        return any(
            record.turn == turn and record.epoch == epoch and offset in record.acked
            for record in self._records.values()
        )

    def acked(self, offset: int, now_us: int) -> None:
        """Note an ack under the lease that holds the offset."""
        held = self._of.pop(offset, None)
        if held is not None:
            held.leased.discard(offset)
            held.acked.add(offset, offset + 1)
            self._acked_of[offset] = held
            self._over(held, now_us)

    def drop(self, offset: int, now_us: int) -> None:
        """Note that the lease of an offset ended without an ack."""
        held = self._of.pop(offset, None)
        if held is not None:
            held.leased.discard(offset)
            self._over(held, now_us)

    def prune(self, now_us: int) -> bool:
        """Forgets the records whose time is over; whether there were any."""
        over = [held for held in self._records.values() if held.expires_us <= now_us]
        for held in over:
            del self._records[held.number]
            self._change(held)
        if over:
            self._open_records = {
                name: kept for name, kept in self._open_records.items() if kept[0] not in over
            }
        return bool(over)

    def changes(self) -> tuple[tuple[DeliveryLease, ...], tuple[int, ...]]:
        """Return rows to put, and numbers whose row has to go, since the last committed flush."""
        self._sent = dict(self._unsaved)
        rows: list[DeliveryLease] = []
        ended: list[int] = []
        for number in self._sent:
            held = self._held.get(number) or self._records.get(number)
            if held is None:
                ended.append(number)
            else:
                rows.append(held.row())
        return tuple(rows), tuple(ended)

    def wrote(self) -> None:
        """Note that the last result of `changes` is committed."""
        for number, stamp in self._sent.items():
            if self._unsaved.get(number) == stamp:
                del self._unsaved[number]

    def resync(self, stored: Iterable[DeliveryLease]) -> None:
        """Compare with the stored rows: the next flush writes the differences."""
        there = {row.number: row for row in stored}
        self._unsaved = {}
        for held in (*self._held.values(), *self._records.values()):
            if there.pop(held.number, None) != held.row():
                self._change(held)
        for number in there:
            self._stamp += 1
            self._unsaved[number] = self._stamp

    def _over(self, held: _Held, now_us: int) -> None:
        self._change(held)
        if held.leased:
            return
        del self._held[held.number]
        if not len(held.acked):
            return
        record, since_us = self._open_records.get((held.epoch, held.turn), (None, 0))
        if record is None or now_us - since_us > _RECORD_US or len(record.acked) > _RECORD_RANGES:
            record = self._new(held.epoch, held.turn, now_us + _RECORD_US + KEPT_US)
            self._records[record.number] = self._held.pop(record.number)
            self._open_records[held.epoch, held.turn] = record, now_us
        for low, high in held.acked.ranges():
            record.acked.add(low, high)
            for offset in range(low, high):
                self._acked_of.pop(offset, None)
        self._change(record)

    def _new(self, epoch: Epoch, turn: int, expires_us: int) -> _Held:
        held = _Held(self._next, epoch, turn, expires_us)
        self._next += 1
        self._held[held.number] = held
        self._change(held)
        return held

    def _change(self, held: _Held) -> None:
        self._stamp += 1
        self._unsaved[held.number] = self._stamp

    def _load(self, row: DeliveryLease) -> None:
        held = _Held(row.number, Epoch(row.epoch_era, row.epoch_n), row.attempt, row.expires_us)
        held.acked = RangeSet(row.acked)
        for low, high in row.offsets:
            held.leased.update(o for o in range(low, high) if o not in held.acked)
        self._of.update(dict.fromkeys(held.leased, held))
        if held.leased:
            for low, high in row.acked:
                self._acked_of.update(dict.fromkeys(range(low, high), held))
        (self._held if held.leased else self._records)[row.number] = held
        self._next = max(self._next, row.number + 1)


def runs(offsets: Iterable[int]) -> list[Range]:
    """Return ascending offsets as ranges."""
    found: list[Range] = []
    for offset in offsets:
        if found and found[-1][1] == offset:
            found[-1] = found[-1][0], offset + 1
        else:
            found.append((offset, offset + 1))
    return found
