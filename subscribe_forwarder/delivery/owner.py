"""One owned (topic, partition): a shared tail per lane, and the readers of its subscriptions.

Ownership is a claim in Postgres under an epoch; memory of a former epoch is kept over a new claim
of ours only where nobody can have owned the partition in between, which is when the epoch is the
next number and the row holds nothing that memory does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from metadata.deliveries import OpenDelivery
from metadata.types import Claim, CursorState, Epoch, PartitionKey
from subscribe_forwarder.delivery.moves import Moves
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.terms import DEFAULT_TERMS, Terms
from subscribe_forwarder.reading.tail import Tail

_ReaderKey = tuple[bytes, int]
"""Subscription uid and lane."""


class Owner:
    """Made by a claim; `frozen` from the moment its ownership is in doubt until the next one."""

    def __init__(
        self,
        claim: Claim,
        tails: Mapping[int, Tail],
        ack_key: bytes,
        on_doomed: Callable[[Reader, OpenDelivery], None] | None = None,
        moves: Moves | None = None,
    ) -> None:
        self.key: PartitionKey = claim.key
        self.tails = tails
        """By lane."""
        self.frozen = False
        self._ack_key = ack_key
        self._on_doomed = on_doomed
        self._epoch = claim.epoch
        self._moves = moves or Moves()
        self._rows = self._by_reader(claim.cursors)
        self._readers: dict[_ReaderKey, Reader] = {}

    @property
    def epoch(self) -> Epoch:
        return self._epoch

    def readers(self) -> Iterable[Reader]:
        return self._readers.values()

    def reader(
        self, subscription_uid: bytes, lane: int = 0, terms: Terms = DEFAULT_TERMS
    ) -> Reader | None:
        """The subscription's reader, made when first asked for; None without a cursor row."""
        key = (subscription_uid, lane)
        reader = self._readers.get(key)
        if reader is None:
            row = self._rows.pop(key, None)
            tail = self.tails.get(lane)
            if row is None or tail is None:
                return None
            reader = Reader(row, self._epoch, tail, self.key, self._ack_key, terms, self._on_doomed)
            reader.frozen = self.frozen
            self._readers[key] = reader
        return reader

    def add_rows(self, rows: Iterable[CursorState]) -> None:
        """Cursors of subscriptions made after the claim; what a claim gave meanwhile is newer."""
        for key, row in self._by_reader(rows).items():
            if row.key.partition == self.key.partition and key not in self._readers:
                self._rows.setdefault(key, row)

    def has(self, reader: Reader) -> bool:
        """Whether it is one of these, and not dropped meanwhile."""
        key = reader.cursor.key
        return self._readers.get((key.subscription_uid, key.lane)) is reader

    def drop_readers(self, subscription_uid: bytes) -> list[Reader]:
        """Of one subscription, with its rows; those that there were."""
        dropped = []
        for lane in self.tails:
            self._rows.pop((subscription_uid, lane), None)
            reader = self._readers.pop((subscription_uid, lane), None)
            if reader is not None:
                dropped.append(reader)
        return dropped

    def freeze(self) -> None:
        """No hand-outs and no answered acks until `adopt`."""
        self.frozen = True
        for reader in self._readers.values():
            reader.frozen = True

    def adopt(self, claim: Claim, dropped: Callable[[Reader], None]) -> None:
        """Goes on under a new claim; `dropped` gets the readers whose cursor is no more."""
        unbroken = claim.epoch in (
            self._epoch,
            Epoch(self._epoch.era, self._epoch.n + 1),
        )
        self._epoch = claim.epoch
        self._rows = self._by_reader(claim.cursors)
        for key, reader in list(self._readers.items()):
            row = self._rows.pop(key, None)
            if row is None:
                del self._readers[key]
                dropped(reader)
                continue
            if unbroken and reader.ledger.resync(row, claim.epoch):
                reader.refence(claim.epoch)
            else:
                reader.reset(row, claim.epoch)
            reader.frozen = False
        self.frozen = False

    def _by_reader(self, rows: Iterable[CursorState]) -> dict[_ReaderKey, CursorState]:
        return {
            (row.key.subscription_uid, row.key.lane): row
            for row in rows
            if not self._moves.is_past(row.key.subscription_uid, row.generation)
        }
