"""Holds the messages of one publish that are stored together, and returns their outcome.

The usual `AppendRequest` is a single message, stored with others in one append and answered through
its future. Two kinds are rarer: a request with ids (`Ids`), which repetitions join while it is on
its way, and one that is cut because its messages go different ways (`Tally` puts their outcomes
together again).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from appending.chunks import message_bytes
from appending.sender import Name
from edge.problem import Problem, preceding_item_failed
from publish_forwarder.budget import Share
from publish_forwarder.outcomes import (
    Outcome,
    Single,
    again,
    each,
    key_reused,
    together,
)
from store_nodes.errors import Known
from store_nodes.record_batch import Message
from store_nodes.wire import Durability

if TYPE_CHECKING:
    from publish_forwarder.batches import BatchPart


class Sink(Protocol):
    """Takes the outcomes of a part, by the places that its messages had."""

    def fill(self, places: Sequence[int], outcome: Outcome) -> None: ...


class AppendRequest(msgspec.Struct, eq=False):
    """Messages of one publish that are stored together or not at all, in one partition.

    A `pinned` request (one with a key, an idempotency key or a producer) never changes its
    partition. Callers that wait for the outcome wait on `future`. It may be cancelled; accepted
    messages are appended all the same.
    """

    messages: list[Message]
    size_bytes: int
    pinned: bool
    durability: Durability
    """The durability that the store is asked for."""
    deadline_s: float
    share: Share
    future: asyncio.Future[Outcome] | None
    publish_id: str = ""
    reroutes: int = 0
    due_us: list[int] | None = None
    """The time to release each message, in a request that is staged."""
    ids: Ids | None = None
    sink: Sink | None = None
    """The taker of the outcomes in place of a future: in a part of a request that was cut, and for
    a publish that no task waits for."""
    places: Sequence[int] = ()

    def resolve(self, outcome: Outcome) -> None:
        """Release the memory of the request, and give the outcome to callers that still wait."""
        self.share.release(self.size_bytes, len(self.messages))
        if self.ids is not None:
            self.ids.resolve(outcome, len(self.messages))
        if self.sink is not None:
            self.sink.fill(self.places, outcome)
            return
        future = self.future
        if future is not None and not future.done():
            future.set_result(outcome)

    def cut(self, groups: Sequence[Sequence[int]]) -> list[AppendRequest]:
        """Return one request for each group of message indices (each ascending), in place of this
        one.
        """
        sink, places = self.dissolve()
        parts = []
        for group in groups:
            part = self.part(group, sink, [places[index] for index in group])
            if self.ids is not None:
                part.ids = self.ids.of_part(part, group)
            parts.append(part)
        assert sum(part.size_bytes for part in parts) == self.size_bytes
        return parts

    def dissolve(self) -> tuple[Sink, Sequence[int]]:
        """End this request, whose messages continue in others; return the `Sink` and the places to
        fill in it.

        Repetitions that joined the request wait for those others.
        """
        count = len(self.messages)
        if self.ids is None:
            return self.sink or Tally(count, self.future), self.places or range(count)
        tally = Tally(count, self.future, self.sink, self.places)
        self.ids.hand_over(tally)
        return tally, range(count)

    def part(self, group: Sequence[int], sink: Sink, places: Sequence[int]) -> AppendRequest:
        """Return a request of the messages at these indices, without ids."""
        messages = [self.messages[index] for index in group]
        return AppendRequest(
            messages,
            sum(message_bytes(message) for message in messages),
            self.pinned,
            self.durability,
            self.deadline_s,
            self.share,
            None,
            self.publish_id,
            self.reroutes,
            [self.due_us[index] for index in group] if self.due_us is not None else None,
            None,
            sink,
            places,
        )

    def learn(
        self, known: dict[int, Known], answer: Callable[[Known], Single]
    ) -> AppendRequest | None:
        """Answer messages that the log has already; return a request of the rest, or None.

        A message that is refused because its id had another body takes later messages of its key
        along.
        """
        assert self.ids is not None
        if self.ids.part is not None or len(self.messages) == 1:
            self.resolve(answer(known[0]))
            return None
        outcomes = {index: answer(each_known) for index, each_known in known.items()}
        broken: set[str] = set()
        for index, message in enumerate(self.messages):
            if message.key in broken:
                outcomes.setdefault(index, preceding_item_failed())
            elif isinstance(outcomes.get(index), Problem) and message.key is not None:
                broken.add(message.key)
        rest = [index for index in range(len(self.messages)) if index not in outcomes]
        if not rest:
            self.resolve(together([outcomes[index] for index in sorted(outcomes)]))
            return None
        done, left = self.cut([sorted(outcomes), rest])
        done.resolve(together([outcomes[index] for index in sorted(outcomes)]))
        return left


class Tally:
    """Gathers the outcomes of a request that was cut, by the places its messages had in it."""

    __slots__ = ("_future", "_joined", "_missing", "_outcomes", "_places", "_sink")

    def __init__(
        self,
        count: int,
        future: asyncio.Future[Outcome] | None,
        sink: Sink | None = None,
        places: Sequence[int] = (),
    ) -> None:
        self._outcomes: list[Single | None] = [None] * count
        self._missing = count
        self._future = future
        self._sink = sink
        self._places = places
        self._joined: list[tuple[Sequence[int], AppendRequest]] = []

    def join(self, places: Sequence[int], request: AppendRequest) -> None:
        """Tell `request`, which repeats the messages at these places, the same outcome."""
        self._joined.append((places, request))

    def fill(self, places: Sequence[int], outcome: Outcome) -> None:
        for place, single in zip(places, each(outcome, len(places)), strict=True):
            assert self._outcomes[place] is None
            self._outcomes[place] = single
        self._missing -= len(places)
        if self._missing:
            return
        outcomes = tuple(single for single in self._outcomes if single is not None)
        if self._sink is not None:
            self._sink.fill(self._places, together(outcomes))
        elif self._future is not None and not self._future.done():
            self._future.set_result(together(outcomes))
        for joined_places, request in self._joined:
            request.resolve(together([again(outcomes[place]) for place in joined_places]))


InFlight = dict[bytes, tuple[AppendRequest, Name]]
"""The ids that are on their way from this process, each with its append request."""


def claim(
    in_flight: InFlight, request: AppendRequest, entry: Name, part: BatchPart | None = None
) -> bool:
    """Give a request its only id; return whether it is to be sent.

    It is not sent if the id is on its way already. It then waits for the outcome of the first, or
    fails because it is another message.
    """
    under_way = in_flight.get(entry.name)
    if under_way is None:
        request.ids = Ids([entry], in_flight, part)
        request.ids.register(request)
        return True
    if part is not None:
        request.sink = JoinedSink(request, part)
        request.places = range(len(request.messages))
    first, id_of_first = under_way
    if (id_of_first.fingerprint, id_of_first.covers) != (entry.fingerprint, entry.covers):
        request.resolve(key_reused())
    else:
        assert first.ids is not None
        first.ids.join(id_of_first, request)
    return False


class JoinedSink:
    """Takes the outcome of a part that joined another: its own batch is told, too."""

    __slots__ = ("_future", "_part", "_places", "_sink")

    def __init__(self, request: AppendRequest, part: BatchPart) -> None:
        self._future = request.future
        self._sink = request.sink
        self._places = request.places
        self._part = part

    def fill(self, places: Sequence[int], outcome: Outcome) -> None:
        if self._sink is not None:
            self._sink.fill(self._places, outcome)
        elif self._future is not None and not self._future.done():
            self._future.set_result(outcome)
        self._part.batch.answered(outcome)


class Ids:
    """The ids of an append request.

    Each id is in `in_flight` until the request's outcome is known. A repetition that comes
    meanwhile joins the request, so that no append holds an id twice.
    """

    __slots__ = ("_joined", "entries", "in_flight", "part")

    def __init__(
        self, entries: list[Name], in_flight: InFlight, part: BatchPart | None = None
    ) -> None:
        assert entries
        self.entries = entries
        self.part = part
        """The part of a producer's batch that has one id as a whole, or None."""
        self.in_flight = in_flight
        self._joined: list[tuple[Name, AppendRequest]] = []

    def register(self, request: AppendRequest) -> None:
        """Mark the ids as on their way; none of them may be already."""
        for entry in self.entries:
            assert entry.name not in self.in_flight
            self.in_flight[entry.name] = (request, entry)

    def join(self, entry: Name, request: AppendRequest) -> None:
        """Let `request` wait for the outcome of the messages of `entry`, which it repeats."""
        self._joined.append((entry, request))

    def resolve(self, outcome: Outcome, count: int) -> None:
        """Give the request's outcome to the requests that joined it."""
        self._forget()
        if self.part is not None:
            self.part.batch.answered(outcome)
        if not self._joined:
            return
        singles = each(outcome, count)
        joined, self._joined = self._joined, []
        for entry, request in joined:
            own = singles[entry.at : entry.at + entry.covers]
            request.resolve(together([again(single) for single in own]))

    def hand_over(self, tally: Tally) -> None:
        """Give the joined requests to `tally`, because their request is cut: they wait for its
        parts.
        """
        self._forget()
        joined, self._joined = self._joined, []
        for entry, request in joined:
            tally.join(range(entry.at, entry.at + entry.covers), request)

    def of_part(self, part: AppendRequest, group: Sequence[int]) -> Ids | None:
        """Return the ids of the messages in `group`, which belong to `part` from now on."""
        at = {index: position for position, index in enumerate(group)}
        entries = [entry._replace(at=at[entry.at]) for entry in self.entries if entry.at in at]
        if not entries:
            return None
        ids = Ids(entries, self.in_flight)
        ids.register(part)
        return ids

    def _forget(self) -> None:
        for entry in self.entries:
            self.in_flight.pop(entry.name, None)
