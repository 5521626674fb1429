"""The stored batches that are still wanted: callables that ask the state machines."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple


class QueueLife(NamedTuple):
    """A queue that is not deleted: offsets from `first` on are wanted, and those of `kept`.

    The kept ones are ascending, all below `first`.
    """

    group: int
    first: int
    kept: Sequence[int]

    def wants(self, base: int, end: int) -> bool:
        """Return whether any offset of [base, end) is wanted."""
        at = bisect_left(self.kept, base)
        return end > self.first or (at < len(self.kept) and self.kept[at] < end)


class Life(NamedTuple):
    """The questions about stored data.

    Dead data stays dead, so an answer may be used later: at worst too much is kept.
    """

    queue: Callable[[bytes], QueueLife | None]
    """Returns None for a deleted queue; everything of a queue that no machine knows is wanted."""
    staged_live: Callable[[bytes, int, int], bool]
    """Returns whether some message of the staged batch (queue, base, messages) is wanted."""
    floor: Callable[[int], int | None]
    """Returns the instance of a group below which every member has applied all, and this node too.

    The result is None for a group that does not run here.
    """
    applied: Callable[[int], int | None]
    """Returns the instance of a group below which this node has applied all."""
