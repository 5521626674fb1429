"""Who decides, in the log, when a delayed message of a sealed queue is published, and whether.

A sealed queue gives no more offsets, so a scheduler appends a copy to a successor. The message may
be cancelled or rescheduled at the same time, in the sealed queue, which is in another group. Both
meet in the successor's group, which remembers ids and takes none twice:

    the copy      is appended under its name, and under its turn. It is made of what the message was
                  when the scheduler knew that all turns before this one were taken
    the change    is made in the sealed queue first. Then it takes the first turn that is free, with
                  a message that is never released and is discarded at once

So either the change has the turn: then the copy is refused, and the scheduler looks again at what
the message is now. Or the copy has it: then whoever makes the change learns that the message is
published. Turns are counted from 0 for each message; a successor that was sealed as well still
knows the ones it gave, and leads on to those that give the next.

Ids are remembered for a day (`appending.writer.NAMES_KEPT_S`): so long a scheduler may take from
copying a message to discarding the original. Names and turns are in logs: other processes and later
versions must compute the same. Schedulers of 0.2.0 know names alone; so a turn is an id of its own,
which they pass over, and never a name that they would take for a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

from appending.writer import Batch, Target, Writer, names_of
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.errors import DedupKnown, Known, QueueNotFound, QueueSealed, StoreError
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message

TAG = b"turn"
"""Of the messages that take turns; the platform's publications have other tags."""


class Discarding(Protocol):
    """Discards staged messages."""

    async def discard(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float
    ) -> int: ...


def copy_ids(index: int, queue: QueueId, number: int, turn: int) -> bytes:
    """The name and the turn of the copy at `index` of a batch, in this order: of a copy that was
    made, the name is what is known."""
    return _entry(index, _name(queue, number)) + _turn_id(index, queue, number, turn)


async def discard_turn(store: Discarding, group: int, known: Known, timeout_s: float) -> None:
    """The message that took a turn, whose maker may have died before it discarded it."""
    await _discard(store, group, QueueId.unpack(known.queue), known.position, timeout_s)


async def take_turn(
    writer: Writer,
    store: Discarding,
    group: int,
    queue: QueueId,
    number: int,
    *,
    timeout_s: float = 5.0,
) -> Known | None:
    """None: whatever copy of the message is made from now on is made of what it is now. Otherwise
    it is published, there. Raises StoreError: then it is not known which; QueueNotFound: a queue
    that it may be copied to is not there, and a turn is taken in all others.

    `queue` is sealed. Which of several successors the message belongs to says its key alone, so a
    turn is taken in each of them. A group knows a turn for all of its queues: one that was taken
    here is as good as free in the next, and what follows a queue is tried for that turn. So each
    queue is tried once, though over a few growths there are more ways to it than anybody can go.
    """
    published: Known | None = None
    missing: QueueNotFound | None = None
    places = [(Target(group, queue), 0)]
    tried: set[tuple[Target, int]] = set()
    taken: set[tuple[int, int]] = set()
    """Groups, and turns that were taken in them here."""
    while places:
        target, turn = place = places.pop()
        asked = turn
        while place not in tried:
            while (target.group, asked) in taken:
                asked += 1
            try:
                names = names_of(_turn_id(0, queue, number, asked))
                receipt = await writer.stage(target, Batch([Message(b"")], names), TAG)
            except DedupKnown as error:
                (known,) = error.known.values()
                if known.staged:
                    await discard_turn(store, target.group, known, timeout_s)
                    turn += turn == asked
                    asked += 1
                    continue
                published = known
            except QueueSealed as sealed:
                places += [
                    (Target(of_group, QueueId.unpack(raw)), turn)
                    for of_group, raw in sealed.successors
                ]
            except QueueNotFound as error:
                missing = error
            else:
                taken.add((target.group, asked))
                await _discard(store, target.group, target.queue, receipt.base_offset, timeout_s)
            tried.add(place)
    if missing is not None and published is None:
        raise missing
    return published


async def _discard(
    store: Discarding, group: int, queue: QueueId, number: int, timeout_s: float
) -> None:
    try:
        await store.discard(group, queue, [number], timeout_s=timeout_s)
    except StoreError:
        return  # it is held for good; whoever meets its turn tries again


def _name(queue: QueueId, number: int) -> bytes:
    content = queue.pack() + number.to_bytes(8, "big")
    return blake2b(content, digest_size=16, person=b"pb-forwarded").digest()


def _turn_id(index: int, queue: QueueId, number: int, turn: int) -> bytes:
    content = queue.pack() + number.to_bytes(8, "big") + turn.to_bytes(8, "big")
    return _entry(index, blake2b(content, digest_size=16, person=b"pb-turn").digest())


def _entry(index: int, hashed: bytes) -> bytes:
    return DEDUP_ENTRY.pack(index, hashed, int.from_bytes(hashed[:8], "little"))
