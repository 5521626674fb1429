"""The messages of one round of schedules: bounded in number and bytes, however much is due.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from cron.plan import ATTRIBUTE_SCHEDULE, ATTRIBUTE_TIME, Plan
from metadata.topics.schedules import DueSchedule, Progress
from outbox import Item
from store_nodes.record_batch import Message

MAX_OF_ONE = 100
"""Runs of one schedule in a round; the rest stays due."""
MAX_RUNS = 1_000
MAX_BYTES = 16 * 1024 * 1024
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_message = msgspec.msgpack.Decoder(Message)


class Piece(NamedTuple):
    """Runs of one schedule that are made together; none if all that is due was missed."""

    due: DueSchedule
    items: list[Item]
    runs: tuple[datetime, ...]
    missed: int
    then: datetime | None

    def progress(self, message_id: str | None) -> Progress:
        """Return the schedule's progress once they are published; the id is the last one's."""
        last_at = self.runs[-1] if self.runs else None
        return Progress(self.then, len(self.runs), self.missed, last_at, message_id)


class Round:
    """The pieces of one round, and the room that is left."""

    def __init__(self) -> None:
        self._runs = MAX_RUNS
        self._bytes = MAX_BYTES
        self.pieces: list[Piece] = []

    @property
    def full(self) -> bool:
        return self._runs <= 0 or self._bytes <= 0

    def add(self, due: DueSchedule, what: Plan) -> None:
        """Add the runs of a schedule as far as there is room, at least one."""
        room = min(MAX_OF_ONE, self._runs, self._bytes // max(1, len(due.message)))
        runs, rest = what.make[: max(1, room)], what.make[max(1, room) :]
        self._runs -= len(runs)
        self._bytes -= len(runs) * len(due.message)
        then = rest[0] if rest else what.then
        self.pieces.append(Piece(due, items_of(due, runs), runs, what.missed, then))


def items_of(due: DueSchedule, runs: Sequence[datetime]) -> list[Item]:
    """Return the messages of runs, with names that are the same whenever a run is made."""
    if not runs:
        return []
    message = _message.decode(due.message)
    return [_item(due, message, at) for at in runs]


def _item(due: DueSchedule, message: Message, at: datetime) -> Item:
    shown = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    attributes = {**(message.attributes or {}), ATTRIBUTE_SCHEDULE: due.name, ATTRIBUTE_TIME: shown}
    seconds = (at - EPOCH) // timedelta(seconds=1)
    name = b"schedule" + due.uid + seconds.to_bytes(8, "big")
    return Item(msgspec.structs.replace(message, attributes=attributes), name)
