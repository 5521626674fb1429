"""Goes once over the readers of a subscription to fill a pull."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from subscribe_forwarder.delivery.pull_limits import PullLimits
from subscribe_forwarder.delivery.reader import Reader, Taken
from subscribe_forwarder.delivery.state.lanes import Lane, Lanes
from subscribe_forwarder.delivery.state.ledger import Now


class Collector:
    """Lets partitions take turns, and priorities get their shares (state/lanes.py)."""

    def __init__(
        self, may_deliver: Callable[[Reader], bool], progressed: Callable[[Reader], None]
    ) -> None:
        self.lanes: Lanes | None = None
        """None where there is one priority."""
        self._may_deliver = may_deliver
        self._progressed = progressed
        self._turn = 0

    def collect(
        self, readers: Mapping[Lane, Reader], limits: PullLimits, now: Now, deadline_ms: int
    ) -> list[Taken]:
        """Lease as many messages as there is room for, the higher priorities first."""
        self._turn += 1
        taken: list[Taken] = []
        if self.lanes is None:
            self._take(list(readers.values()), limits, now, deadline_ms, taken)
            return taken
        by_lane: dict[int, list[Reader]] = {}
        for place, reader in readers.items():
            by_lane.setdefault(place.lane, []).append(reader)
        ready = [lane for lane, some in by_lane.items() if any(one.has_ready(now) for one in some)]
        counts = dict.fromkeys(ready, 0)
        for lane, most in self.lanes.plan(ready, limits.max_messages):
            before = limits.max_messages
            limits.max_messages = share = min(most, before)
            self._take(by_lane[lane], limits, now, deadline_ms, taken)
            used = share - limits.max_messages
            counts[lane] += used
            limits.max_messages = before - used
            if limits.full:
                break
        self.lanes.delivered(counts, ready)
        taken.sort(key=lambda part: -part.reader.place.lane)
        return taken

    def _take(
        self,
        readers: Sequence[Reader],
        limits: PullLimits,
        now: Now,
        deadline_ms: int,
        taken: list[Taken],
    ) -> None:
        """Lease messages from readers in turn, until there is no room."""
        for index in range(len(readers)):
            reader = readers[(self._turn + index) % len(readers)]
            if reader.idle or not self._may_deliver(reader):
                continue
            part = reader.take(limits, now, deadline_ms)
            if part is not None:
                taken.append(part)
            if reader.cursor.dirty:
                self._progressed(reader)
            if limits.full:
                break
