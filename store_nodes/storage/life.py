"""What of the stored batches is still wanted: asked of the state machines, through callables."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple


class QueueLife(NamedTuple):
    """A queue that is not deleted: offsets from `first` on are wanted, and those of `kept`
    (ascending, all below it)."""

    group: int
    first: int
    kept: Sequence[int]

    def wants(self, base: int, end: int) -> bool:
        """Whether any offset of [base, end) is wanted."""
        at = bisect_left(self.kept, base)
        return end > self.first or (at < len(self.kept) and self.kept[at] < end)


class Life(NamedTuple):
    """What is dead once stays dead, so an answer may be used later: it only keeps too much."""

    queue: Callable[[bytes], QueueLife | None]
    """None for a queue that is known to be deleted; all of one that nobody knows is wanted."""
    staged_live: Callable[[bytes, int, int], bool]
    """(queue, base, messages): some message of that staged batch is wanted."""
    floor: Callable[[int], int | None]
    """Instances of the group below it were applied by every member, and here; None for a group
    that does not run here."""
    applied: Callable[[int], int | None]
    """The same, here alone."""
