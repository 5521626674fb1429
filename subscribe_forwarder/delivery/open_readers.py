"""Chooses the readers that are open to a consumer that takes from some partitions only.

The readers of its partitions are open once no other consumer has leased any of their messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from subscribe_forwarder.delivery.reader import Reader, Taken
from subscribe_forwarder.delivery.state.affinity import Affinity
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.ledger import Now
from subscribe_forwarder.delivery.wait_list import Want


class OpenReaders:
    """The partitions of one subscription, and the consumers to which they belong."""

    def __init__(
        self, may_deliver: Callable[[Reader], bool], progressed: Callable[[Reader], None]
    ) -> None:
        self.affinity = Affinity()
        self._may_deliver = may_deliver
        self._progressed = progressed

    def open_to(
        self, want: Want, readers: Mapping[Lane, Reader], partitions: int, now: Now
    ) -> Mapping[Lane, Reader]:
        """Return the readers open to a consumer, of a topic with `partitions` partitions."""
        places = want.places
        if places is None:
            return readers
        if not places.affinity:
            named = places.partitions or ()
            return {place: one for place, one in readers.items() if place.partition in named}
        affinity = self.affinity
        affinity.partitions = partitions
        dealt: dict[int, dict[Lane, Reader]] = {}
        for place, reader in readers.items():
            if affinity.owner(place.partition) == want.consumer:
                dealt.setdefault(place.partition, {})[place] = reader
        found: dict[Lane, Reader] = {}
        for partition, some in dealt.items():
            leased = self._any_leased(some.values(), now)
            if affinity.may_take(want.consumer, partition, leased=leased):
                found |= some
        return found

    def delivered(self, want: Want, taken: Sequence[Taken]) -> None:
        """Note which consumer got messages of which partition."""
        if want.places is not None and want.places.affinity:
            for part in taken:
                self.affinity.took(want.consumer, part.reader.place.partition)

    def _any_leased(self, readers: Iterable[Reader], now: Now) -> bool:
        """Return whether any message is leased; expired leases end first, also if nobody
        takes from the partition.
        """
        leased = False
        for reader in readers:
            if reader.ledger.leases.leased and self._may_deliver(reader):
                reader.end_leases(now)
                if reader.cursor.dirty:
                    self._progressed(reader)
            leased |= reader.ledger.leases.leased > 0
        return leased
