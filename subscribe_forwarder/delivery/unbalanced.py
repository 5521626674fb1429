"""Keeps the cursors whose counters do not balance (P9), as of the last look at each.

A gauge for the alert, and one log line when a cursor goes wrong. Nothing is stopped: its messages
continue, and an operator must find out which messages the counters lack.
"""

from __future__ import annotations

import structlog

from metadata.types import CursorKey
from subscribe_forwarder import metrics

_log = structlog.get_logger("packetboat.subscribe")


class UnbalancedCursors:
    """Keeps the balance of the cursors that this process owns."""

    def __init__(self) -> None:
        self._wrong: dict[CursorKey, int | None] = {}
        self._flushed: set[CursorKey] = set()

    def __len__(self) -> int:
        return len(self._wrong)

    def wrong(self) -> set[CursorKey]:
        """Return the cursors whose books did not balance at the last look."""
        return set(self._wrong)

    def flushed(self, key: CursorKey, difference: int) -> None:
        """Note the difference that a flush found when it wrote a row.

        Once wrong, only a recount makes it right: the statement sees how the rows changed, not how
        many there are.
        """
        self._flushed.add(key)
        if difference:
            self._tell(key, difference)

    def take_flushed(self) -> set[CursorKey]:
        """Return the cursors that were flushed since the last call."""
        flushed, self._flushed = self._flushed, set()
        return flushed

    def counted(self, key: CursorKey, difference: int) -> None:
        """Note the difference that a recount of all its rows in Postgres found."""
        if difference:
            self._tell(key, difference)
        else:
            self.forget(key)

    def refused(self, key: CursorKey) -> None:
        """Postgres does not take its row; it is frozen."""
        self._wrong[key] = None
        self._show()

    def forget(self, key: CursorKey) -> None:
        self._flushed.discard(key)
        if key in self._wrong:
            del self._wrong[key]
            self._show()

    def _tell(self, key: CursorKey, difference: int) -> None:
        if self._wrong.get(key, 0) != difference:
            self._wrong[key] = difference
            self._show()
            _log.error(
                "books do not balance",
                subscription=key.subscription_uid.hex(),
                partition=key.partition,
                lane=key.lane,
                difference=difference,
            )

    def _show(self) -> None:
        metrics.unbalanced.set(len(self._wrong))
