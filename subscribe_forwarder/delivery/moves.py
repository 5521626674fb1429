"""Knows the lowest possible generation of subscriptions that were moved lately.

A row that was read before a move committed may arrive after all processes heard of the move: it
must not count any more. If Postgres lost history, it may have lost moves: a row that was claimed in
an era after that of the move is not from before it.
"""

from __future__ import annotations

from collections import OrderedDict

from metadata.subscriptions.seeks import ERA_SHIFT

MAX_MOVES = 10_000
"""Older ones are long past any read that was under way."""


class Moves:
    """Knows the moves of one process, for all partitions."""

    def __init__(self) -> None:
        self._generations: OrderedDict[bytes, int] = OrderedDict()

    def moved(self, subscription_uid: bytes, generation: int) -> None:
        known = self._generations.pop(subscription_uid, 0)
        self._generations[subscription_uid] = max(known, generation)
        while len(self._generations) > MAX_MOVES:
            self._generations.popitem(last=False)

    def is_past(self, subscription_uid: bytes, generation: int, era: int) -> bool:
        """Return whether the subscription has left that generation, as it was found in that era."""
        known = self._generations.get(subscription_uid, 0)
        return generation < known and era <= known >> ERA_SHIFT
