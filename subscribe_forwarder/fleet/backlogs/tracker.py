"""Tracks changes of the subscriptions of which anyone wants to hear.

A subscription costs nothing while nobody wants it or it does not change: a tail that grew is one
mark for all the subscriptions of its topic, which are looked at once a second at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from metadata.types import Unit
from subscribe_forwarder.fleet.backlogs.local import Holdings, Seen
from subscribe_forwarder.fleet.backlogs.pace import Pace
from subscribe_forwarder.fleet.backlogs.part import Part, Wanted

INTERVAL_S = 1.0
HERE = b""
"""Stands for this process among those who want to hear."""


class Change(NamedTuple):
    """A part that is new, for those."""

    part: Part
    for_whom: frozenset[bytes]


class _Meter:
    """The rate of deliveries per second, over the last second or more."""

    __slots__ = ("_at_s", "_count", "per_s")

    def __init__(self, count: int, now_s: float) -> None:
        self._count = count
        self._at_s = now_s
        self.per_s = 0.0

    def read(self, count: int, now_s: float) -> float:
        passed_s = now_s - self._at_s
        if passed_s >= 0.9 * INTERVAL_S:
            new = count - self._count if count >= self._count else count  # a new hub counts anew
            self.per_s = round(new / passed_s, 1)
            self._count, self._at_s = count, now_s
        return self.per_s


class _Tracked:
    """One subscription."""

    __slots__ = ("meter", "told", "unlike", "wanted", "who")

    def __init__(self, wanted: Wanted, meter: _Meter) -> None:
        self.wanted = wanted
        self.who: set[bytes] = set()
        self.meter = meter
        self.told: Part | None = None
        """The part that all listeners were told last."""
        self.unlike = False
        """Whether a listener may know something else."""


class Tracker:
    """Tracks the subscriptions of one process, on its event loop."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._tracked: dict[bytes, _Tracked] = {}
        self._by_topic: dict[bytes, set[bytes]] = {}
        self._topics = Pace(INTERVAL_S)
        self._subscriptions = Pace(INTERVAL_S)
        self._number = 0
        self.missing: dict[bytes, Wanted] = {}
        """Owned here, and to be loaded before they can be counted."""

    def __len__(self) -> int:
        return len(self._tracked)

    # Wants of listeners.

    def want(self, who: bytes, wanted: Wanted, now_s: float) -> Part:
        """Return the present part; from now on `changes` names the subscription for `who`."""
        uid = wanted.subscription_uid
        tracked = self._tracked.get(uid)
        if tracked is None:
            meter = _Meter(self._holdings.see(wanted).delivered, now_s)
            tracked = self._tracked[uid] = _Tracked(wanted, meter)
            self._by_topic.setdefault(wanted.topic_uid, set()).add(uid)
        elif tracked.wanted.partitions < wanted.partitions:
            tracked.wanted = wanted
        tracked.who.add(who)
        part, _ = self._count(tracked, now_s)
        self.again(uid)
        return part

    def unwant(self, who: bytes, subscription_uids: Iterable[bytes]) -> None:
        for uid in subscription_uids:
            tracked = self._tracked.get(uid)
            if tracked is None:
                continue
            tracked.who.discard(who)
            if not tracked.who:
                self._forget(uid, tracked.wanted.topic_uid)

    def unwant_all(self, who: bytes) -> None:
        self.unwant(who, [uid for uid, tracked in self._tracked.items() if who in tracked.who])

    # What happens.

    def grew(self, unit: Unit) -> bool:
        """Note that a unit grew or moved; return whether anyone wants to hear of it."""
        wanted = unit.topic_uid in self._by_topic
        if wanted:
            self._topics.changed(unit.topic_uid)
        return wanted

    def worked(self, subscription_uid: bytes) -> bool:
        """Note a delivery or a settlement; return whether anyone wants to hear of it."""
        wanted = subscription_uid in self._tracked
        if wanted:
            self._subscriptions.changed(subscription_uid)
        return wanted

    def found(self, subscription_uid: bytes) -> None:
        """Note that a missing subscription can be counted.

        It is due at once, for what was told of it says nothing.
        """
        if subscription_uid in self._tracked:
            self._subscriptions.forget(subscription_uid)
            self._subscriptions.changed(subscription_uid)

    def again(self, subscription_uid: bytes) -> None:
        """Somebody may not know what was told last."""
        tracked = self._tracked.get(subscription_uid)
        if tracked is not None:
            tracked.unlike = True
            self._subscriptions.changed(subscription_uid)

    # Calls of listeners.

    def next_s(self) -> float | None:
        """Return when to call `changes`; None: once something happens."""
        due_s = [
            at_s
            for at_s in (self._topics.next_s(), self._subscriptions.next_s())
            if at_s is not None
        ]
        return min(due_s, default=None)

    def changes(self, now_s: float) -> Iterator[Change | None]:
        """Yield the changes that are due, each counted in its turn; None for a subscription
        that is as it was told.
        """
        for topic_uid in self._topics.due(now_s):
            for uid in self._by_topic.get(topic_uid, ()):
                self._subscriptions.changed(uid)
        for uid in self._subscriptions.due(now_s):
            tracked = self._tracked.get(uid)
            if tracked is None:
                continue  # given up since
            part, seen = self._count(tracked, now_s)
            if part.leased or part.delivered_per_s:
                self._subscriptions.changed(uid)  # leases end, and rates fall, by themselves
            if seen.missing:
                self.missing[uid] = tracked.wanted
            told = tracked.told
            if tracked.unlike or told is None or not part.says_the_same(told):
                tracked.told, tracked.unlike = part, False
                yield Change(part, frozenset(tracked.who))
            else:
                yield None

    def _count(self, tracked: _Tracked, now_s: float) -> tuple[Part, Seen]:
        seen = self._holdings.see(tracked.wanted)
        self._number += 1
        part = Part(
            tracked.wanted.subscription_uid,
            self._number,
            seen.shares,
            seen.waiting,
            seen.streams,
            tracked.meter.read(seen.delivered, now_s),
            seen.paused,
        )
        return part, seen

    def _forget(self, uid: bytes, topic_uid: bytes) -> None:
        del self._tracked[uid]
        self._subscriptions.forget(uid)
        self.missing.pop(uid, None)
        of_topic = self._by_topic[topic_uid]
        of_topic.discard(uid)
        if not of_topic:
            del self._by_topic[topic_uid]
            self._topics.forget(topic_uid)
