"""Holds back messages that must not overtake others: the order of keys in a reader's deliveries.

The ledger follows the decisions of KeyOrder: a message behind another of its key is held, and
offered once it is its turn; behind a parked one it is stepped over. Messages that the ledger makes
ready by itself (the end of a back-off, a released lease) are delivered only in their turn.

A settled message keeps its place until a flush has written that: if the process died before, the
message would be delivered again, after a later one of its key. An ack may come for a message that
the owner before delivered, and that was not read here yet. Its key is unknown, so no message after
it is read before that ack is committed.

After a takeover the open deliveries take their places first, those included that were settled
meanwhile. If a row lacks its key, the message is read before any message is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from metadata.delivery.deliveries import OpenDelivery, Reason
from subscribe_forwarder.delivery.reading.tail import Tail
from subscribe_forwarder.delivery.state.ledger import Ledger
from subscribe_forwarder.delivery.state.order import KeyOrder, Verdict

_PARKED = (Reason.PARKED, Reason.BEHIND_PARKED)
_NOT_TO_EXPIRE = (*_PARKED, Reason.EXHAUSTED, Reason.REJECTED)
_MAX_ASKED = 1_000


class ParkedKey(NamedTuple):
    """A key that waits for an operator: its head, and how many messages are behind it."""

    key_hash: int
    head: OpenDelivery
    behind: int


class KeySequencer:
    """The order of keys for one reader of a subscription; created with its ledger."""

    def __init__(self, ledger: Ledger, tail: Tail, scan: Callable[[], int]) -> None:
        """Create the sequencer; `scan` returns the offset at which the reader continues with
        unread messages.
        """
        self._ledger = ledger
        self._tail = tail
        self._scan = scan
        self.order = KeyOrder()
        self._settling: set[int] = set()
        """Settled, and not committed yet."""
        self._unread: set[int] = set()
        """Settled offsets that were not read."""
        self._rows = dict(ledger.exceptions)
        """The open deliveries that take their places in `load`."""
        self._unknown = [row.offset for row in ledger.exceptions.values() if row.key_hash is None]
        self._keys: dict[int, int] = {}
        self._loaded = False
        self._asked: set[int] = set()  # heads whose time to live must be read
        self._timeless: set[int] = set()  # heads of which it is not known
        ledger.key_hash_of = self.order.key_of
        ledger.on_settling = self._on_settling
        ledger.on_settled = self._on_settled
        ledger.on_parked = self._park

    @property
    def bound(self) -> int | None:
        """From here on nothing is to be read before a flush, if so."""
        return min(self._unread, default=None)

    def load(self) -> bool:
        """Puts open deliveries in their places; False while one of them has to be read first."""
        if self._loaded:
            return True
        while self._unknown:
            offset = self._unknown[-1]
            if not self._tail.gone(offset):
                batch = self._tail.find(offset)
                if batch is None:
                    self._tail.want(offset)
                    return False
                key = batch.key_hashes()[offset - batch.base]
                if key is not None:
                    self._keys[offset] = key
            self._unknown.pop()
        self._loaded = True
        for offset, row in sorted((self._rows | dict(self._ledger.exceptions)).items()):
            key = self._keys.get(offset) if row.key_hash is None else row.key_hash
            if key is None:
                continue
            self._timeless.add(offset)
            if self.order.admit(offset, key) is not Verdict.GO or offset in self._settling:
                continue
            if row.reason is Reason.PARKED:
                self.order.park(key)
            elif row.reason is Reason.BEHIND_PARKED:
                # The message before it was settled by an owner that did not know this message yet:
                # by an ack that came, and may have been committed, before this was loaded.
                self._ledger.resume(offset)
        self._keys.clear()
        self._rows.clear()
        return True

    def missing(self) -> bool:
        """Return whether messages must be read before any is delivered; request them."""
        return not self.load()

    def admit(self, offset: int, key: int, expires_us: int) -> bool:
        """Take the next message; return whether it may be delivered now.

        Otherwise it is held or stepped over.
        """
        verdict = self.order.admit(offset, key, expires_us)
        if verdict is Verdict.GO:
            return True
        if verdict is Verdict.BEHIND:
            self._ledger.step_over((offset,), Reason.BEHIND_PARKED)
            return False
        self._ledger.leases.hold(offset)
        head = self.order.head_of(key)
        if head in self._settling:
            self._ledger.awaited = True
        if head in self._timeless and len(self._asked) < _MAX_ASKED:
            self._timeless.discard(head)
            self._asked.add(head)
        return False

    def in_turn(self, offset: int) -> bool:
        """Return whether a ready message may be delivered: it has no key, or is the first
        of its key.
        """
        return self.order.key_of(offset) is None or self.order.is_head(offset)

    def overdue(self, now_us: int) -> list[int]:
        """Return ascending offsets that wait at the head of their key and whose time is over."""
        if self._asked:
            self._read_times()
        overdue = self.order.overdue(now_us)
        return sorted([offset for offset in overdue if self._may_expire(offset)]) if overdue else []

    def next_expiry_us(self) -> int | None:
        """Return the time at which the next head expires; may be early, never late."""
        if self._asked:
            self._read_times()
        return self.order.next_expiry_us()

    # Parked keys.

    def parked(self) -> list[ParkedKey]:
        self.load()
        rows = self._ledger.exceptions
        return [
            ParkedKey(key, rows[head], behind)
            for key, (head, behind) in self.order.parked_keys().items()
            if head in rows
        ]

    def resume(self, key: int) -> bool:
        """Deliver the head of a key again, once that is durable; return False if the key is
        not parked.
        """
        head = self.order.unpark(key)
        return head is not None and self._ledger.resume(head)

    def skip(self, key: int) -> bool:
        """Settle the head of a key as skipped, so that the next is delivered; return False
        if it is not parked.
        """
        head = self.order.head_of(key)
        return head is not None and key in self.order.parked and self._ledger.skip(head)

    def _park(self, row: OpenDelivery) -> None:
        key = self.order.key_of(row.offset)
        if key is None or not self.order.is_head(row.offset):
            return
        rows = self._ledger.exceptions
        behind = [
            offset
            for offset in self.order.park(key)
            if offset not in self._settling
            and (offset not in rows or rows[offset].reason is not Reason.BEHIND_PARKED)
        ]
        if behind:
            self._ledger.step_over(behind, Reason.BEHIND_PARKED)

    def _on_settling(self, offsets: Sequence[int]) -> None:
        self._settling.update(offsets)
        scan = self._scan()
        for offset in offsets:
            if self.order.key_of(offset) is None and offset >= scan:
                self._unread.add(offset)
            elif self.order.holds_up(offset):
                self._ledger.awaited = True
        self._ledger.awaited |= bool(self._unread)

    def _on_settled(self, offsets: Sequence[int]) -> None:
        assert self._settling.issuperset(offsets), f"a key is freed by what is open, of {offsets}"
        self._settling.difference_update(offsets)
        self._unread.difference_update(offsets)
        self._timeless.difference_update(offsets)
        if not self._loaded:
            for offset in offsets:
                self._rows.pop(offset, None)
        for offset in self.order.settled(offsets):
            if offset in self._settling:
                self._ledger.awaited |= self.order.holds_up(offset)
            elif not self._ledger.resume(offset):  # it may be behind one that was parked
                self._ledger.offer(offset)

    def _may_expire(self, offset: int) -> bool:
        row = self._ledger.exceptions.get(offset)
        return self._ledger.leases.is_waiting(offset) and (
            row is None or row.reason not in _NOT_TO_EXPIRE
        )

    def _read_times(self) -> None:
        """Read the expiry of heads that came with the row, so that they hold nobody up
        beyond it.
        """
        for offset in tuple(self._asked):
            if not self.order.is_head(offset) or self._tail.gone(offset):
                self._asked.discard(offset)
            elif (batch := self._tail.find(offset)) is None:
                self._tail.want(offset)
            else:
                self._asked.discard(offset)
                expires_us = batch.expires_us(offset - batch.base)
                if expires_us:
                    self.order.expires(offset, expires_us)
