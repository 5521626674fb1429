"""A cursor and what is counted beside it, for whoever checks that the books balance (P9).

    read_to − start = acked + filtered + skipped + expired + dead_lettered + exceptions + pending

and `exceptions` is how many rows of `deliveries` there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from metadata.types import CursorState


@dataclass(frozen=True, slots=True)
class CursorBooks:
    """One cursor row as one snapshot saw it."""

    cursor: CursorState
    open_deliveries: int
    """Its rows of `deliveries`, counted."""

    @property
    def difference(self) -> int:
        """What is not accounted for; 0 when the books balance."""
        cursor = self.cursor
        counted = cursor.counters.total() + self.open_deliveries + cursor.pending()
        return cursor.read_to - cursor.start - counted or cursor.exceptions - self.open_deliveries
