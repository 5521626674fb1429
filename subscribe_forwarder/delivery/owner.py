"""One owned (topic, partition): a shared tail, and the readers of its subscriptions.

Ownership is a claim in Postgres under an epoch; memory of a former epoch is kept over a new claim
of ours only where nobody can have owned the partition in between, which is when the epoch is the
next number and the row holds nothing that memory does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from metadata.types import Claim, CursorState, Epoch, PartitionKey
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.reading.tail import Tail


class Owner:
    """Made by a claim; `frozen` from the moment its ownership is in doubt until the next one."""

    def __init__(self, claim: Claim, tail: Tail, ack_key: bytes) -> None:
        self.key: PartitionKey = claim.key
        self.tail = tail
        self.frozen = False
        self._ack_key = ack_key
        self._epoch = claim.epoch
        self._rows = {row.key.subscription_uid: row for row in claim.cursors}
        self._readers: dict[bytes, Reader] = {}

    @property
    def epoch(self) -> Epoch:
        return self._epoch

    def readers(self) -> Iterable[Reader]:
        return self._readers.values()

    def reader(self, subscription_uid: bytes) -> Reader | None:
        """The subscription's reader, made when first asked for; None without a cursor row."""
        reader = self._readers.get(subscription_uid)
        if reader is None:
            row = self._rows.pop(subscription_uid, None)
            if row is None:
                return None
            reader = Reader(row, self._epoch, self.tail, self.key, self._ack_key)
            reader.frozen = self.frozen
            self._readers[subscription_uid] = reader
        return reader

    def add_rows(self, rows: Iterable[CursorState]) -> None:
        """Cursors of subscriptions made after the claim."""
        for row in rows:
            uid = row.key.subscription_uid
            if row.key.partition == self.key.partition and uid not in self._readers:
                self._rows[uid] = row

    def drop_reader(self, subscription_uid: bytes) -> None:
        self._rows.pop(subscription_uid, None)
        self._readers.pop(subscription_uid, None)

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
        self._rows = {row.key.subscription_uid: row for row in claim.cursors}
        for uid, reader in list(self._readers.items()):
            row = self._rows.pop(uid, None)
            if row is None:
                del self._readers[uid]
                dropped(reader)
                continue
            if unbroken and reader.cursor.covers(row):
                reader.refence(claim.epoch)
            else:
                reader.reset(row, claim.epoch)
            reader.frozen = False
        self.frozen = False
