"""Keeps append sessions of one queue, so that a retry neither duplicates nor reorders messages.

Per (queue, session) the last sequence and the receipts of the last `RECEIPTS` sequences are kept:

* the next sequence is new; it is consumed when it is stored or refused;
* one of the last `RECEIPTS` is a repeat and gets its old receipt, which may be a refusal;
* an older one was decided, but its receipt is gone: the outcome is unknown;
* a later one is a gap and is refused, consuming nothing;
* an unknown session starts at 1.

A session is forgotten once log time is `FORGET_AFTER_US` past both its last deadline and its last
use. A repeat that comes later is past its deadline and is refused, so forgetting never makes a
duplicate.
"""

from __future__ import annotations

from store_nodes.errors import DeadlinePassed, DedupKnown, Overloaded, TooLarge
from store_nodes.machine.packed import pack_u64, unpack_u64

RECEIPTS = 64
"""Receipts kept per session: also the most appends that a forwarder may have in flight."""
FORGET_AFTER_US = 60 * 1_000_000
MAX_DEADLINE_AHEAD_US = 24 * 3600 * 1_000_000
"""The furthest deadline ahead of log time; a later one would keep the session for ever."""

_FIELDS = 3
RECEIPT_BYTES = 8 * _FIELDS
_REFUSED = 2**64 - 1
"""The base offset of a receipt that is a refusal; its count is the error's code."""
STAGED_COUNT = 1 << 32
"""The number added to the count of a receipt whose base is a stage number."""
Refusal = type[DeadlinePassed] | type[TooLarge] | type[Overloaded] | type[DedupKnown]
_REFUSALS: dict[int, Refusal] = {
    cls.code: cls for cls in (DeadlinePassed, TooLarge, Overloaded, DedupKnown)
}


class Session:
    """One session of one queue.

    Receipts are a ring of (base offset, count, log time) in one packed array, which keeps ten
    thousand sessions small. The receipt of a stage has its base number, and its count +
    STAGED_COUNT.
    """

    __slots__ = ("deadline_us", "last_seq", "receipts", "used_us")

    def __init__(
        self, last_seq: int = 0, deadline_us: int = 0, used_us: int = 0, receipts: bytes = b""
    ) -> None:
        self.last_seq = last_seq
        self.deadline_us = deadline_us
        self.used_us = used_us
        self.receipts = unpack_u64(receipts)
        assert len(self.receipts) == _FIELDS * min(last_seq, RECEIPTS), "receipts do not match"

    @property
    def forget_after_us(self) -> int:
        """The log time above which the session is forgotten."""
        return max(self.deadline_us, self.used_us) + FORGET_AFTER_US

    def stored(self, base_offset: int, count: int, log_time_us: int, deadline_us: int) -> None:
        """Consume the next sequence as stored, and keep its receipt."""
        self.last_seq += 1
        self.used_us = log_time_us
        if deadline_us > self.deadline_us:
            self.deadline_us = deadline_us
        receipts = self.receipts
        at = (self.last_seq - 1) % RECEIPTS * _FIELDS
        assert at <= len(receipts), f"receipt {self.last_seq} leaves a gap"
        if at == len(receipts):
            receipts.extend((base_offset, count, log_time_us))
        else:
            receipts[at] = base_offset
            receipts[at + 1] = count
            receipts[at + 2] = log_time_us

    def refused(self, error: Refusal, log_time_us: int) -> None:
        """Consume the next sequence, which was refused, as every repeat of it will be.

        The deadline of a refused append does not count: it is over, or it was the reason of the
        refusal.
        """
        assert error.code in _REFUSALS, f"{error.code} is no refusal that is kept"
        self.stored(_REFUSED, error.code, log_time_us, 0)

    def receipt(self, seq: int) -> tuple[int, int, int] | Refusal | None:
        """Return the (base offset, count, log time) of a consumed sequence, or its refusal; None if
        too old.
        """
        assert 0 < seq <= self.last_seq, f"receipt of {seq}, {self.last_seq} is the last"
        if seq <= self.last_seq - RECEIPTS:
            return None
        at = (seq - 1) % RECEIPTS * _FIELDS
        base_offset, count, log_time_us = self.receipts[at : at + _FIELDS]
        if base_offset == _REFUSED:
            return _REFUSALS[count]
        return base_offset, count, log_time_us

    def packed_receipts(self) -> bytes:
        """Return the ring as little-endian u64, for a snapshot."""
        return pack_u64(self.receipts)
