"""Keeps the leases of an exactly-once ledger by turn, and what is told of their ends.

A turn is what an ack id says of its lease: the attempt, and more than that where a lease was given
back, so that no two leases of a message under one epoch share an id. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from subscribe_forwarder.delivery.state.cursor import Cursor, Settled
from subscribe_forwarder.delivery.state.exceptions import Exceptions
from subscribe_forwarder.delivery.state.held_leases import HeldLeases

MAX_TURN = 0xFFFF


class ExactLeases:
    """Keeps leases that are flushed with the cursor. Times are µs of the wall clock."""

    def __init__(self, cursor: Cursor, exceptions: Exceptions, held: HeldLeases) -> None:
        self._cursor = cursor
        self._open = exceptions
        self._held = held
        self._given_back: dict[int, int] = {}  # offset → how often

    @property
    def any_given_back(self) -> bool:
        """Whether any lease was released, so that turns differ from attempts."""
        return bool(self._given_back)

    def turn(self, offset: int) -> int:
        """Return the turn of the offset's present lease, or of its next one; from 1. No two leases
        of an offset under one epoch have the same."""
        return min(self._open.attempts(offset) + 1 + self._given_back.get(offset, 0), MAX_TURN)

    def grant(self, offsets: Sequence[int], expires_us: int) -> None:
        by_turn: dict[int, list[int]] = {}
        for offset in offsets:
            by_turn.setdefault(self.turn(offset), []).append(offset)
        for turn, of_turn in by_turn.items():
            self._held.grant(of_turn, self._cursor.epoch, turn, expires_us)
        self._cursor.touch()

    def extend(self, offset: int, expires_us: int, now_us: int) -> None:
        self._held.extend(offset, expires_us, now_us)
        self._cursor.touch()

    def give_back(self, offset: int, now_us: int) -> None:
        """Return a lease: no attempt counts, but the next lease is another one."""
        self._given_back[offset] = self._given_back.get(offset, 0) + 1
        self._held.drop(offset, now_us)
        self._cursor.touch()

    def failed(self, offset: int, now_us: int) -> None:
        if self._held:
            self._held.drop(offset, now_us)

    def settled(self, offsets: Sequence[int], how: Settled, now_us: int) -> None:
        """Note the settlement of offsets in their leases."""
        if not self._held:
            return
        end = self._held.acked if how is Settled.ACKED else self._held.drop
        for offset in offsets:
            self._given_back.pop(offset, None)
            end(offset, now_us)
        self._cursor.touch()

    def prune(self, now_us: int) -> None:
        """Drop records of finished leases whose time is over."""
        if self._held and self._held.prune(now_us):
            self._cursor.touch()
