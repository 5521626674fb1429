"""Assigns partitions to consumers that want partitions of their own.

Each partition belongs to one of the present consumers: the one with the highest score for it
(rendezvous hashing), as long as none has more than its fair number. When a consumer comes or goes,
the partitions are assigned again, and few move. Leases of the former consumer keep the next one
away from a partition: `may_take` is false until none of its messages is leased, so that at most one
consumer works on it at a time.

Each forwarder assigns the partitions that it owns, to the consumers that it sees. Pure: times are
seconds of the caller's monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from hashlib import blake2b

MAX_DEALT = 256
"""Consumers that partitions are dealt to, the first that came; others wait for one to go."""
_MASK = (1 << 64) - 1


class Affinity:
    """Assigns the partitions of one subscription to its consumers at one forwarder."""

    def __init__(self) -> None:
        self.partitions = 0
        """The number of partitions of the topic, owned here or not."""
        self._until_s: dict[str, float] = {}
        """The time until which each consumer counts as present, in the order in which they came."""
        self._scores: dict[str, list[int]] = {}
        self._dealt: Mapping[int, str] | None = {}
        """The consumer of each partition; None: assign them again."""
        self._dealt_partitions = 0
        self._workers: dict[int, str] = {}
        """The consumer of each partition that was the last to get messages of it."""

    def __len__(self) -> int:
        return len(self._until_s)

    def attend(self, consumer: str, until_s: float) -> bool:
        """Count a consumer as present until then, or longer if an earlier call said so;
        return whether it is new.
        """
        known_s = self._until_s.get(consumer)
        self._until_s[consumer] = until_s if known_s is None else max(known_s, until_s)
        if known_s is None:
            self._dealt = None
        return known_s is None

    def depart(self, consumer: str) -> bool:
        """Remove a consumer; return whether it was present."""
        if self._until_s.pop(consumer, None) is None:
            return False
        self._scores.pop(consumer, None)
        self._dealt = None
        return True

    def expire(self, now_s: float) -> bool:
        """Remove consumers whose time is over; return whether there were any."""
        if not self._until_s:
            return False
        gone = [consumer for consumer, until_s in self._until_s.items() if until_s <= now_s]
        for consumer in gone:
            self.depart(consumer)
        return bool(gone)

    def due_s(self) -> float | None:
        """Return the time at which `expire` may change something, or None."""
        return min(self._until_s.values(), default=None)

    def owner(self, partition: int) -> str | None:
        """Return the consumer of a partition; None while no consumer is present."""
        if self._dealt is None or self._dealt_partitions != self.partitions:
            self._dealt_partitions = self.partitions
            self._dealt = self._deal()
        return self._dealt.get(partition)

    def may_take(self, consumer: str, partition: int, *, leased: bool) -> bool:
        """Return whether a consumer may get messages of a partition; `leased`: some of its
        messages are leased.
        """
        if self.owner(partition) != consumer:
            return False
        return not leased or self._workers.get(partition) == consumer

    def took(self, consumer: str, partition: int) -> None:
        """Note that a consumer has leased messages of the partition."""
        self._workers[partition] = consumer

    def _deal(self) -> Mapping[int, str]:
        consumers = list(self._until_s)[:MAX_DEALT]
        if not consumers:
            return {}
        scores = {consumer: self._scores_of(consumer) for consumer in consumers}
        room = dict.fromkeys(consumers, math.ceil(self.partitions / len(consumers)))
        dealt: dict[int, str] = {}
        for partition in range(self.partitions):
            best = max(room, key=lambda one: (scores[one][partition], one))
            dealt[partition] = best
            room[best] -= 1
            if not room[best]:
                del room[best]
        return dealt

    def _scores_of(self, consumer: str) -> list[int]:
        scores = self._scores.get(consumer, [])
        if len(scores) != self.partitions:
            seed = int.from_bytes(blake2b(consumer.encode(), digest_size=8).digest(), "big")
            scores = [_mixed(seed, partition) for partition in range(self.partitions)]
            self._scores[consumer] = scores
        return scores


def _mixed(seed: int, partition: int) -> int:
    """Return a number like one drawn at random for each pair: the finalizer of SplitMix64
    (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014).
    """
    mixed = (seed + partition * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)
