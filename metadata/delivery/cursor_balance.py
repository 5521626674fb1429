"""A cursor and the counts beside it, for checks that the books balance (P9).

    read_to − start = acked + filtered + skipped + expired + dead_lettered + exceptions + pending

and `exceptions` is how many rows of `deliveries` there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from metadata.types import CursorState


@dataclass(frozen=True, slots=True)
class CursorBalance:
    """One cursor row as one snapshot saw it."""

    cursor: CursorState
    open_deliveries: int
    """The number of its rows of `deliveries`."""

    @property
    def difference(self) -> int:
        """The number of messages that no count has; 0 if the books balance."""
        cursor = self.cursor
        counted = cursor.counters.total() + self.open_deliveries + cursor.pending()
        return cursor.read_to - cursor.start - counted or cursor.exceptions - self.open_deliveries
