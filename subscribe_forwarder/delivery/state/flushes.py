"""Collects the content of a ledger's flushes: the cursor, and the rows written beside it.

A flush takes all changes since the last committed one. They count as written when `wrote` is told.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from metadata.delivery.deliveries import DeadLetter, OpenDelivery, Publication
from metadata.types import CursorState, CursorUpdate, Epoch
from subscribe_forwarder.delivery.state.ages import Ages
from subscribe_forwarder.delivery.state.cursor import Cursor
from subscribe_forwarder.delivery.state.exceptions import Exceptions
from subscribe_forwarder.delivery.state.held_leases import HeldLeases
from subscribe_forwarder.delivery.state.holes import step_over_holes
from subscribe_forwarder.delivery.state.leases import LeaseTable

MAX_ROWS = 10_000
"""New open deliveries that one flush carries."""


class Durable(NamedTuple):
    """The parts of a ledger that Postgres has since the last commit."""

    rows: list[OpenDelivery]
    """The rows of open deliveries that have not changed since."""
    settled: list[int]
    """The settled offsets that somebody waits for."""


class Flushes:
    """Makes the flushes of one ledger, which never overlap."""

    def __init__(
        self,
        cursor: Cursor,
        leases: LeaseTable,
        exceptions: Exceptions,
        held: HeldLeases,
        ages: Ages,
        key_hash_of: Callable[[int], int | None],
    ) -> None:
        self.dead_letters: list[DeadLetter] = []
        """Stored, and not written yet."""
        self.publications: list[Publication] = []
        """The publications of acks that are not written yet."""
        self.settled: list[int] = []
        """The settled offsets that no flush has written yet, if somebody waits for them."""
        self.floor = cursor.floor
        """The floor that Postgres has."""
        self._cursor = cursor
        self._leases = leases
        self._open = exceptions
        self._held = held
        self._ages = ages
        self._key_hash_of = key_hash_of
        self._sent: tuple[CursorUpdate, int, int] | None = None
        """The update, the cursor's version in it, and how many of `settled` it has."""

    def update(self) -> CursorUpdate:
        """Return everything that the next flush has to write."""
        cursor = self._cursor
        for offset in self._open.first_new(MAX_ROWS):
            cursor.step_over(offset)
            self._open.step(offset)
        step_over_holes(cursor, self._leases, self._open, self._ages, self._key_hash_of)
        rows, closed = self._open.changes()
        leases, ended = self._held.changes()
        update = replace(
            cursor.update(),
            stepped_over=rows,
            closed=closed,
            leases=leases,
            ended_leases=ended,
            dead_letters=tuple(self.dead_letters),
            history=tuple(cursor.history or ()),
            publications=tuple(self.publications),
        )
        # This flush does not write the rows that are left for the next one.
        version = cursor.flushed_version if self._open.new else cursor.version
        self._sent = update, version, len(self.settled)
        return update

    def wrote(self, update: CursorUpdate) -> Durable:
        """Note that an update is committed; return what is durable now."""
        if self._sent is None or self._sent[0] is not update:
            return Durable([], [])
        cursor = self._cursor
        cursor.flushed_version = max(cursor.flushed_version, self._sent[1])
        self._held.wrote()
        settled = self._drop_written(update, self._sent[2])
        self._sent = None
        self.floor = update.floor
        return Durable(self._open.wrote(update.stepped_over, update.closed), settled)

    def resync(self, state: CursorState, epoch: Epoch) -> Durable | None:
        """Continue from a row that the last flush may or may not have written.

        Returns what is durable; None if memory lacks something that the row has, or has an ack
        whose messages may never be published.
        """
        if (
            self.publications
            or not self._cursor.ordered
            or not self._cursor.covers(state)
            or any(
                row.offset not in self._open and not self._cursor.is_passed(row.offset)
                for row in state.stepped_over
            )
        ):
            return None
        settled: list[int] = []
        if self._sent is not None and _counts_as(self._sent[0], state):
            settled = self._drop_written(self._sent[0], self._sent[2])
        self._sent = None
        self.floor = state.floor
        self._cursor.epoch = epoch
        self._held.resync(state.leases)
        self._cursor.touch()
        return Durable(self._open.resync(state.stepped_over), settled)

    def _drop_written(self, update: CursorUpdate, count: int) -> list[int]:
        """Drop what an update has written and no other flush needs; return the first `count`
        settled offsets, which it has.
        """
        settled = self.settled[:count]
        del self.settled[:count]
        del self.dead_letters[: len(update.dead_letters)]
        del self.publications[: len(update.publications)]
        history = self._cursor.history
        if history is not None:
            del history[: len(update.history)]
        return settled


def _counts_as(update: CursorUpdate, state: CursorState) -> bool:
    """Return whether the row has the outcomes that this update settled.

    Open deliveries do not matter: a further failure of one changes no outcome.
    """
    return (update.floor, update.read_to, update.acked, update.counters, update.exceptions) == (
        state.floor,
        state.read_to,
        state.acked,
        state.counters,
        state.exceptions,
    )
