"""The beginning of a new owner's ledger: the open deliveries, and the leases of the owner before.

Leases of an exactly-once subscription are rows of Postgres. Others are known if the owner before
reported them when it handed over (`InheritedLease`); if it died, they are unknown, and their
messages are delivered again. A message under such a lease becomes an open delivery, a hole, which
the cursor steps over: so that reading on from the floor does not take it for a new one.

Pure; deadlines are milliseconds of the caller's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from metadata.delivery.deliveries import OpenDelivery, Reason
from subscribe_forwarder.delivery.state.cursor import Cursor
from subscribe_forwarder.delivery.state.exceptions import Exceptions
from subscribe_forwarder.delivery.state.held_leases import HeldLeases
from subscribe_forwarder.delivery.state.leases import LeaseTable
from subscribe_forwarder.delivery.state.retry import Now


class InheritedLease(NamedTuple):
    """The lease of one message, as the owner before reported it."""

    deadline_ms: int
    epoch_n: int
    """The epoch in its ack id."""
    offset: int


class Inherited:
    """The leases that one ledger inherits: taken in when it is created, and leased once the
    time is known.
    """

    def __init__(
        self,
        cursor: Cursor,
        leases: LeaseTable,
        open_deliveries: Exceptions,
        held: HeldLeases,
        handed: Sequence[InheritedLease],
    ) -> None:
        self._cursor = cursor
        self._leases = leases
        self._open = open_deliveries
        self._held = held
        self._handed = [lease for lease in handed if self._may_be_leased(lease.offset)]
        for offset in [*(o for o, _ in held.offsets()), *(each.offset for each in self._handed)]:
            if not cursor.is_passed(offset):
                self._open.put(OpenDelivery(offset, 0, Reason.HOLE))
                cursor.step_over(offset)
                self._open.step(offset)
        for row in self._open:
            self._leases.hold_unwritten(row.offset)
        self.waits = bool(len(self._open) or held)
        """`lease` is to be called; until then no flush lets go of a message."""

    def not_leased(self) -> list[InheritedLease]:
        """Return leases that wait for the time to be known."""
        return list(self._handed)

    def lease(self, now: Now) -> None:
        """Give each of them that is not settled yet a lease."""
        self.waits = False
        for offset, expires_us in self._held.offsets():
            if offset not in self._open:
                self._held.drop(offset, now.us)
            elif self._leases.is_unwritten(offset):
                self._lease([offset], now.clock_ms(expires_us), 0, now)
        for (deadline_ms, epoch_n), some in groupby(sorted(self._handed), lambda one: one[:2]):
            offsets = [each.offset for each in some if self._leases.is_unwritten(each.offset)]
            if offsets:
                self._lease(offsets, deadline_ms, epoch_n, now)
        self._handed.clear()

    def _may_be_leased(self, offset: int) -> bool:
        row = self._open.rows.get(offset)
        if row is not None:
            return row.reason in (Reason.HOLE, Reason.FAILED)
        return offset < self._cursor.read_to and not self._cursor.is_passed(offset)

    def _lease(self, offsets: list[int], deadline_ms: int, epoch_n: int, now: Now) -> None:
        self._leases.settle(offsets)
        self._leases.lease(offsets, deadline_ms, epoch_n, leased_us=now.us)
