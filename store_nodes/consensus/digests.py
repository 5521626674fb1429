"""The divergence alarm: chained digests of applied entries, compared at the same instances.

A replica halts when a majority of voters agree on another digest than its own, never on one peer's
word.
"""

from __future__ import annotations

from collections.abc import Iterable

from store_nodes.consensus.messages import DigestAt

REMEMBERED = 64


class DigestTable:
    """Recent digests by instance and node, this node's own among them."""

    def __init__(self, me: int, voters: Iterable[int]) -> None:
        self._me = me
        self._at: dict[int, dict[int, bytes]] = {}
        self._latest: dict[int, DigestAt] = {}
        self.count(voters)

    def count(self, voters: Iterable[int]) -> None:
        """Take these voters from now on; their majority decides."""
        self._voters = frozenset(voters)
        self._majority = len(self._voters) // 2 + 1

    def note(self, instance: int, digest: bytes) -> None:
        self._add((self._me, instance, digest))

    def own(self) -> DigestAt | None:
        return self._latest.get(self._me)

    def known(self) -> tuple[DigestAt, ...]:
        return tuple(self._latest.values())

    def compare(self, heard: Iterable[DigestAt]) -> str | None:
        """Add digests of other nodes; return the reason to halt, or None."""
        for entry in heard:
            if entry[0] != self._me and self._latest.get(entry[0]) != entry:
                self._add(entry)
                if self._outvoted(entry[1], entry[2]):
                    return f"state digest after instance {entry[1]} differs from a majority's"
        return None

    def _add(self, entry: DigestAt) -> None:
        node, instance, digest = entry
        self._latest[node] = entry
        self._at.setdefault(instance, {})[node] = digest
        if len(self._at) > REMEMBERED:
            del self._at[min(self._at)]

    def _outvoted(self, instance: int, digest: bytes) -> bool:
        digests = self._at.get(instance, {})
        own = digests.get(self._me)
        others = sum(
            other == digest and node != self._me and node in self._voters
            for node, other in digests.items()
        )
        return own is not None and own != digest and others >= self._majority
