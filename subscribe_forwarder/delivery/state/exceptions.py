"""Keeps the open deliveries of one cursor: the messages that it stepped over.

It knows which of them Postgres lacks. A row is *new* until the flush that first carries it: only
then does the cursor step over its offset, so rows and the cursor's count of them change in one
commit, and a message settled before that never had a row. Only rows that changed since the last
committed flush travel. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from metadata.delivery.deliveries import OpenDelivery


class Exceptions:
    """Keeps the rows of open deliveries by offset."""

    __slots__ = ("_new", "_rows", "_saved", "_unsaved")

    def __init__(self, saved: Iterable[OpenDelivery] = ()) -> None:
        self._rows = {row.offset: row for row in saved}
        self._new: dict[int, None] = {}
        self._unsaved: dict[int, OpenDelivery | None] = {}  # None: its row has to go
        self._saved = set(self._rows)  # rows that Postgres may have

    def __len__(self) -> int:
        """Return the number of open deliveries, new ones included."""
        return len(self._rows)

    def __contains__(self, offset: int) -> bool:
        return offset in self._rows

    def __iter__(self) -> Iterator[OpenDelivery]:
        return iter(self._rows.values())

    @property
    def rows(self) -> dict[int, OpenDelivery]:
        """Read it only."""
        return self._rows

    @property
    def new(self) -> int:
        """The number of open deliveries that the cursor has not stepped over yet."""
        return len(self._new)

    @property
    def unwritten(self) -> bool:
        """Whether a row has to be written."""
        return bool(self._new) or any(row is not None for row in self._unsaved.values())

    def durable(self) -> list[OpenDelivery]:
        """Return the rows that Postgres has as they are in memory."""
        return [
            row
            for offset, row in self._rows.items()
            if offset not in self._new and offset not in self._unsaved
        ]

    def is_durable(self, row: OpenDelivery) -> bool:
        """Return whether Postgres has this row, and it is the one in memory."""
        offset = row.offset
        return (
            self._rows.get(offset) == row
            and offset not in self._new
            and offset not in self._unsaved
        )

    def attempts(self, offset: int) -> int:
        """Return the number of attempts at this offset that ended without an ack."""
        row = self._rows.get(offset)
        return 0 if row is None else row.attempts

    def put(self, row: OpenDelivery) -> None:
        """Add a row, or change one."""
        if row.offset not in self._rows:
            self._new[row.offset] = None
        elif row.offset not in self._new:
            self._unsaved[row.offset] = row
        self._rows[row.offset] = row

    def none_stored_below(self, end: int) -> bool:
        """Return whether Postgres has no row of an offset below `end`."""
        return all(offset >= end for offset in self._saved)

    def stepped_over(self, offset: int) -> bool:
        return offset in self._rows and offset not in self._new

    def close(self, offset: int) -> bool:
        """Close the row of a settled offset; return whether the cursor had stepped over it."""
        if self._rows.pop(offset, None) is None:
            return False
        if offset in self._new:
            del self._new[offset]
            return False
        if offset in self._saved:
            self._unsaved[offset] = None
        else:
            del self._unsaved[offset]
        return True

    def step(self, offset: int) -> None:
        """Note that the cursor steps over a new open delivery, whose row is flushed from now on."""
        assert offset in self._new, f"offset {offset} was stepped over before"
        del self._new[offset]
        self._unsaved[offset] = self._rows[offset]

    def first_new(self, limit: int) -> list[int]:
        """Return the first offsets that the cursor has not stepped over yet, `limit` at most."""
        return [offset for offset, _ in zip(self._new, range(limit), strict=False)]

    def changes(self) -> tuple[tuple[OpenDelivery, ...], tuple[int, ...]]:
        """Return rows to put, and offsets whose row has to go, since the last committed flush."""
        rows = tuple([row for row in self._unsaved.values() if row is not None])
        closed = tuple([offset for offset, row in self._unsaved.items() if row is None])
        self._saved.update([row.offset for row in rows])
        return rows, closed

    def wrote(self, rows: Iterable[OpenDelivery], closed: Iterable[int]) -> list[OpenDelivery]:
        """Note that changes are committed; return those rows that have not changed since."""
        durable = []
        for row in rows:
            if self._unsaved.get(row.offset) is row:
                del self._unsaved[row.offset]
                durable.append(row)
        for offset in closed:
            if offset in self._unsaved:
                del self._unsaved[offset]
            self._saved.discard(offset)
        return durable

    def resync(self, stored: Iterable[OpenDelivery]) -> list[OpenDelivery]:
        """Compare with the stored rows: the next flush writes the differences.

        Returns the rows that turn out to be stored as they are in memory.
        """
        before = self._unsaved
        there = {row.offset: row for row in stored}
        self._saved = set(there)
        self._unsaved = dict.fromkeys(offset for offset in there if offset not in self._rows)
        durable = []
        for offset, row in self._rows.items():
            if offset in self._new:
                continue
            if there.get(offset) != row:
                self._unsaved[offset] = row
            elif offset in before:
                durable.append(row)
        return durable
