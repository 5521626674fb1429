"""The log decides when a delayed message of a sealed queue is published, and whether.

A sealed queue gives no more offsets, so a scheduler appends a copy to a successor. The message may
be cancelled or rescheduled at the same time, in the sealed queue, which is in another group. Both
meet in the successor's group, which remembers ids and takes none twice:

    the copy      is appended under its name, and under its turn. It is made of what the message was
                  when the scheduler knew that all turns before this one were taken
    the change    is made in the sealed queue first. Then it takes each turn under which a copy may
                  come that was begun before it, with messages that are never released and are
                  discarded at once

So either the change has the turn: then the copy is refused, and the scheduler looks again at what
the message is now. Or the copy has it: then the author of the change learns that the message is
published. Turns are counted from 0 for each message; a successor that was sealed as well still
knows the ones it gave, and leads on to those that give the next.

A scheduler passes over a turn where a group on its way knows that another change took it. Another
group may not know that turn: a change dies before it comes there, or its topic grows. So a change
takes all turns from 0 to the one that it was led on with, in each queue that it comes to.

Ids are remembered for a day (`appending.writer.NAMES_KEPT_S`). A scheduler may take a day from
copying a message to discarding the original. Names and turns are in logs: other processes and later
versions must compute the same. Schedulers of 0.2.0 know names alone; so a turn is an id of its own,
which they pass over, and never a name that they would take for a copy.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b

from appending.writer import Batch, Target, Writer, names_of
from store_nodes.client import StoreClient
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.errors import DedupKnown, Known, QueueNotFound, QueueSealed, StoreError
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message

TAG = b"turn"
"""Messages that take turns have this tag; the platform's publications have others."""
MOST_AHEAD = 64
"""Turns beyond the last known one that a group is asked for at once."""


def copy_ids(index: int, queue: QueueId, number: int, turn: int) -> bytes:
    """Return the name and the turn of the copy at `index` of a batch, in this order: the store
    knows a copy that was made by its name.
    """
    return _entry(index, _name(queue, number)) + _turn_id(index, queue, number, turn)


async def discard_turn(store: StoreClient, group: int, known: Known, timeout_s: float) -> None:
    """Discard the message that took a turn; its maker may have died before it did so."""
    await _discard(store, group, QueueId.unpack(known.queue), [known.position], timeout_s)


async def take_turn(
    writer: Writer,
    store: StoreClient,
    group: int,
    queue: QueueId,
    number: int,
    *,
    was_made: Callable[[QueueId], bool],
    timeout_s: float = 5.0,
) -> Known | None:
    """Take the turns of a change. Return None if each copy that is made from now on is made of the
    changed message, or else where the message is published. Raises StoreError: then it is not known
    which; QueueNotFound: a queue that it may be copied to is not there yet, and turns are taken in
    all others.

    `was_made` tells whether a queue was there before: if it is not now, it is deleted, and takes no
    copy. It may say no of one that it does not know.

    `queue` is sealed. Which of several successors the message belongs to says its key alone, so
    turns are taken in each of them. A group knows a turn for all of its queues: one that this
    change took counts as free in the next. So each queue is tried once, though over a few growths
    there are more ways to it than anybody can go.
    """
    change = _Change(writer, store, queue, number, timeout_s)
    missing: QueueNotFound | None = None
    places: list[_Place] = [(Target(group, queue), 0)]
    tried: set[_Place] = set()
    while places:
        place = places.pop()
        if place in tried:
            continue
        tried.add(place)
        try:
            places += await change.take(*place)
        except QueueNotFound as error:
            if not was_made(place[0].queue):
                missing = error
    if missing is not None and change.published is None:
        raise missing
    return change.published


_Place = tuple[Target, int]
"""A queue, and the last turn that must be taken there."""


class _Change:
    """The turns that one change takes.

    Each change takes a turn more than those before it, and so does each try that an error ended. If
    each turn were a call, each try would be longer than the last, and less likely to come to its
    end. So a group is asked for several turns at once.
    """

    def __init__(
        self, writer: Writer, store: StoreClient, queue: QueueId, number: int, timeout_s: float
    ) -> None:
        self.published: Known | None = None
        """This says where the message is, if a copy of it has a turn."""
        self._writer = writer
        self._store = store
        self._queue = queue
        self._number = number
        self._timeout_s = timeout_s
        self._taken: defaultdict[int, dict[int, bool]] = defaultdict(dict)
        """The turns that are taken in each group: whether by this change."""

    async def take(self, target: Target, last: int) -> list[_Place]:
        """Take the turns up to `last` that are free. Where another change took `last`, a copy may
        come under the next. Return the queues that a sealed one leads to."""
        taken = self._taken[target.group]
        free: set[int] = set()
        successors: Sequence[Target] | None = None
        ahead = 1
        while True:
            while taken.get(last) is False and (last + 1 in taken or last + 1 in free):
                last += 1
            asked = [turn for turn in range(last + 1) if turn not in taken and turn not in free]
            if not asked and taken.get(last) is False:
                asked = [*range(last + 1, last + 1 + ahead)]
                if ahead > 1:
                    asked.append(last)  # which is taken, so this takes none of the others
            elif not asked:
                if successors is not None:
                    return [(each, last) for each in successors]
                asked = [next(turn for turn in itertools.count(last + 1) if turn not in taken)]
            try:
                successors = await self._take(target, asked)
            except DedupKnown as error:
                known = {asked[index]: one for index, one in error.known.items()}
                await self._found(target.group, known)
                if self.published is not None:
                    return []
                ahead = min(2 * ahead, MOST_AHEAD) if len(known) == len(asked) else 1
            else:
                free.update(asked if successors else ())

    async def _take(self, target: Target, turns: Sequence[int]) -> Sequence[Target]:
        """Take all of the turns if the queue is open. Return the queues that it leads to if it is
        sealed. Raises DedupKnown: some are taken in that group, and none is taken now."""
        ids = [_turn_id(index, self._queue, self._number, turn) for index, turn in enumerate(turns)]
        batch = Batch([Message(b"")] * len(turns), names_of(b"".join(ids)))
        try:
            receipt = await self._writer.stage(target, batch, TAG)
        except QueueSealed as sealed:
            return [Target(group, QueueId.unpack(raw)) for group, raw in sealed.successors]
        self._taken[target.group].update(dict.fromkeys(turns, True))
        staged = range(receipt.base_offset, receipt.base_offset + len(turns))
        await _discard(self._store, target.group, target.queue, staged, self._timeout_s)
        return []

    async def _found(self, group: int, known: Mapping[int, Known]) -> None:
        """Note turns that others took, and discard the messages with which they did."""
        by_queue: defaultdict[bytes, list[int]] = defaultdict(list)
        for turn, one in known.items():
            if not one.staged:
                self.published = one
            elif turn not in self._taken[group]:
                self._taken[group][turn] = False
                by_queue[one.queue].append(one.position)
        for queue, numbers in by_queue.items():
            await _discard(self._store, group, QueueId.unpack(queue), numbers, self._timeout_s)


async def _discard(
    store: StoreClient, group: int, queue: QueueId, numbers: Sequence[int], timeout_s: float
) -> None:
    try:
        await store.discard(group, queue, numbers, timeout_s=timeout_s)
    except StoreError:
        return  # they are held for good; the next one to meet their turns tries again


def _name(queue: QueueId, number: int) -> bytes:
    content = queue.pack() + number.to_bytes(8, "big")
    return blake2b(content, digest_size=16, person=b"pb-forwarded").digest()


def _turn_id(index: int, queue: QueueId, number: int, turn: int) -> bytes:
    content = queue.pack() + number.to_bytes(8, "big") + turn.to_bytes(8, "big")
    return _entry(index, blake2b(content, digest_size=16, person=b"pb-turn").digest())


def _entry(index: int, hashed: bytes) -> bytes:
    return DEDUP_ENTRY.pack(index, hashed, int.from_bytes(hashed[:8], "little"))
