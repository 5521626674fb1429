"""Chooses the groups of new partitions' queues: the next one for each, those with a leader
first.
"""

from __future__ import annotations

import itertools
import secrets

from store_nodes.client import StoreClient


class GroupChoice:
    """Consecutive groups, whose leaders differ, from a start that rotates."""

    def __init__(self, store: StoreClient) -> None:
        self._store = store
        self._next = itertools.count(secrets.randbelow(1 << 16))

    def choose(self, count: int) -> list[int]:
        """Return a group for each of `count` partitions."""
        groups = tuple(self._store.groups)
        start = next(self._next) % len(groups)
        ring = groups[start:] + groups[:start]
        ring = tuple(sorted(ring, key=lambda group: not self._store.has_leader(group)))
        return [ring[number % len(ring)] for number in range(count)]
