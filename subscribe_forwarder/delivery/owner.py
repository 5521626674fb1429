"""Holds one owned unit: a tail per lane, and the readers of its subscriptions, or of one.

Ownership is a claim in Postgres under an epoch; memory of a former epoch is kept over a new claim
of ours only where nobody can have owned the unit in between, which is when the claim before was
that one, and the row holds nothing that memory does not. Rows that were read before or after we
owned their cursors are told by their epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from metadata.delivery.deliveries import OpenDelivery
from metadata.types import Claim, CursorKey, CursorState, Epoch, Unit
from peering.shared_secret import SharedSecret
from subscribe_forwarder.delivery.moves import Moves
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reading.tail import Tail
from subscribe_forwarder.delivery.state.inherited import InheritedLease
from subscribe_forwarder.delivery.terms import DEFAULT_TERMS, Terms

_ReaderKey = tuple[bytes, int]
"""Subscription uid and lane."""


class Owner:
    """Holds one unit from its claim on; `frozen` while its ownership is in doubt."""

    def __init__(
        self,
        claim: Claim,
        tails: Mapping[int, Tail],
        ack_key: SharedSecret,
        on_dead_letter: Callable[[Reader, OpenDelivery], None] | None = None,
        moves: Moves | None = None,
        handed: Callable[[CursorKey, int], Sequence[InheritedLease]] = lambda key, generation: (),
        on_outstanding: Callable[[Reader], None] | None = None,
    ) -> None:
        """Open a claimed unit; `handed` returns the leases of a cursor that the owner
        before reported.
        """
        self.key: Unit = claim.key
        self.tails = tails
        """Tails by lane."""
        self.frozen = False
        self._ack_key = ack_key
        self._on_dead_letter = on_dead_letter
        self._on_outstanding = on_outstanding
        self._epoch = claim.epoch
        self._merged: dict[bytes, Epoch] = {}
        """Epochs by subscription: those merged since the claim have their own."""
        self.split_off = claim.split_off
        """Subscriptions that are not served by this unit."""
        self._leaving = False
        self._moves = moves or Moves()
        self._handed = handed
        self._rows = self._by_reader(claim.cursors)
        self._readers: dict[_ReaderKey, Reader] = {}

    @property
    def epoch(self) -> Epoch:
        return self._epoch

    @property
    def leaving(self) -> bool:
        """Whether the unit is being given away: nothing is delivered."""
        return self._leaving

    @leaving.setter
    def leaving(self, leaving: bool) -> None:
        self._leaving = leaving
        for reader in self._readers.values():
            reader.leaving = leaving

    def readers(self) -> Iterable[Reader]:
        """Return the readers of this unit."""
        return self._readers.values()

    def unread(self) -> list[CursorKey]:
        """Return cursors that have no reader."""
        return [row.key for row in self._rows.values()]

    def reader(
        self, subscription_uid: bytes, lane: int = 0, terms: Terms = DEFAULT_TERMS
    ) -> Reader | None:
        """Return the subscription's reader, made at the first call; None without a cursor row."""
        key = (subscription_uid, lane)
        reader = self._readers.get(key)
        if reader is None:
            row = self._rows.pop(key, None)
            tail = self.tails.get(lane)
            if row is None or tail is None:
                return None
            reader = Reader(
                row,
                row.epoch,
                tail,
                self.key,
                self._ack_key,
                terms,
                self._on_dead_letter,
                self._handed(row.key, row.generation),
                self._on_outstanding,
            )
            reader.frozen, reader.leaving = self.frozen, self._leaving
            self._readers[key] = reader
        return reader

    def knows(self, subscription_uid: bytes) -> bool:
        """Return whether it has a cursor of the subscription, in use or not."""
        keys = [(subscription_uid, lane) for lane in self.tails]
        return any(key in self._readers or key in self._rows for key in keys)

    def backlog_of(self, subscription_uid: bytes) -> tuple[int, int] | None:
        """Return the numbers of unsettled and of leased messages, over all lanes.

        Returns None if there is no cursor here or the store has not reported the end of a lane.
        """
        messages = leased = 0
        for lane, tail in self.tails.items():
            key = (subscription_uid, lane)
            reader, row = self._readers.get(key), self._rows.get(key)
            if tail.end is None or (reader is None and row is None):
                return None
            if reader is not None:
                messages += reader.backlog
                leased += reader.ledger.leases.leased
            elif row is not None:
                messages += row.pending() + row.exceptions + max(0, tail.end - row.read_to)
        return messages, leased

    def add_rows(self, rows: Iterable[CursorState]) -> None:
        """Add cursors of subscriptions made after the claim; rows of a later claim are newer."""
        for key, row in self._by_reader(rows).items():
            ours = self._merged.get(key[0], self._epoch)
            if row.key.partition != self.key.partition or row.epoch != ours:
                continue
            if key not in self._readers:
                self._rows.setdefault(key, row)

    def split(self, subscription_uid: bytes) -> None:
        """Serve the subscription in its own unit from now on, and drop its readers here."""
        self.split_off |= {subscription_uid}
        self._merged.pop(subscription_uid, None)
        self.drop_readers(subscription_uid)

    def merge(self, subscription_uid: bytes, rows: Iterable[CursorState]) -> None:
        """Serve the subscription here again, from these rows."""
        self.split_off -= {subscription_uid}
        for key, row in self._by_reader(rows).items():
            self._merged[subscription_uid] = row.epoch
            self._rows[key] = row

    def has(self, reader: Reader) -> bool:
        """Return whether the reader is one of these, and was not dropped meanwhile."""
        key = reader.cursor.key
        return self._readers.get((key.subscription_uid, key.lane)) is reader

    def drop_readers(self, subscription_uid: bytes, keep: int | None = None) -> list[Reader]:
        """Drop the readers of a subscription with its rows, but for the generation `keep`;
        return the dropped readers.
        """
        dropped = []
        for key in [(subscription_uid, lane) for lane in self.tails]:
            row, reader = self._rows.get(key), self._readers.get(key)
            if row is not None and row.generation != keep:
                del self._rows[key]
            if reader is not None and reader.cursor.generation != keep:
                dropped.append(self._readers.pop(key))
        return dropped

    def freeze(self) -> None:
        """Stop deliveries and answers to acks until `adopt`."""
        self.frozen = True
        for reader in self._readers.values():
            reader.frozen = True

    def adopt(self, claim: Claim, dropped: Callable[[Reader], None]) -> None:
        """Continue under a new claim; `dropped` gets the readers whose cursor is gone."""
        assert claim.epoch > self._epoch, f"claimed under {claim.epoch} after {self._epoch}"
        unbroken = claim.previous == self._epoch
        self._epoch = claim.epoch
        self._merged.clear()
        self.split_off = claim.split_off
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
            if not self._moves.is_past(row.key.subscription_uid, row.generation, row.epoch.era)
        }
