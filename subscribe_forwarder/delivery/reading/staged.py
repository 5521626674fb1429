"""Finds messages whose id was made when they were staged.

Such an id names the queue and the number under which a delayed message was staged, and stays when
it is released: then the store knows its offset. If its queue was sealed before the message came
due, a copy continues in a later queue, and Postgres knows its place. This process remembers the
messages that it delivered, so an ack by message id asks nobody.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from typing import NamedTuple

from edge.message_id import MessageId
from metadata.delivery.due import QueueKey
from metadata.delivery.forwarded import ForwardedRepository
from metadata.types import SealedPartition, Topic
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound
from store_nodes.queue_id import QueueId
from subscribe_forwarder.delivery.state.lanes import Lane

MAX_REMEMBERED = 65_536


class Where(NamedTuple):
    """A published message."""

    partition: int
    offset: int
    lane: int = 0

    @property
    def place(self) -> Lane:
        return Lane(self.partition, self.lane)


class Nowhere(enum.Enum):
    """A message that can't be read: not yet, never, or no more."""

    STAGED = "staged"
    DISCARDED = "discarded"
    TRUNCATED = "truncated"
    UNKNOWN = "unknown"


class StagedIds:
    """Id → place, of the messages delivered last; the least recently used leaves."""

    def __init__(self, max_entries: int = MAX_REMEMBERED) -> None:
        self._max_entries = max_entries
        self._places: OrderedDict[str, Where] = OrderedDict()

    def put(self, text: str, where: Where) -> None:
        self._places[text] = where
        self._places.move_to_end(text)
        if len(self._places) > self._max_entries:
            self._places.popitem(last=False)

    def get(self, text: str) -> Where | None:
        where = self._places.get(text)
        if where is not None:
            self._places.move_to_end(text)
        return where


class StagedLocator:
    """Finds them: what was delivered here, else what the store says, else what Postgres says."""

    def __init__(self, store: StoreClient, forwarded: ForwardedRepository, ids: StagedIds) -> None:
        self._store = store
        self._forwarded = forwarded
        self.ids = ids

    async def locate(self, topic: Topic, wanted: MessageId) -> Where | Nowhere:
        """Return the place of an id of FORM_STAGE in this topic.

        Raises StoreError and MetadataError.
        """
        text = str(wanted)
        known = self.ids.get(text)
        if known is not None:
            return known
        generations = topic.generations(wanted.partition, wanted.lane)
        generation = next((g for g in generations if g.generation == wanted.generation), None)
        if generation is None:
            return Nowhere.UNKNOWN
        queue = QueueId(topic.uid, generation.number, generation.lane, generation.generation)
        try:
            found = await self._store.locate(generation.group, queue, wanted.stage_number)
        except QueueNotFound:
            return Nowhere.UNKNOWN
        if found.offset is not None:
            where = Where(wanted.partition, found.offset, wanted.lane)
        elif isinstance(generation, SealedPartition):
            # The copy is made, then recorded, then the original discarded. An original that was
            # discarded very long ago answers as truncated.
            key = QueueKey(topic.tenant_id, topic.uid, *queue[1:])
            moved = (await self._forwarded.find(key, [wanted.stage_number])).get(
                wanted.stage_number
            )
            if moved is None:
                return Nowhere(found.state)
            where = Where(moved.partition, moved.offset, wanted.lane)
        else:
            return Nowhere(found.state)
        self.ids.put(text, where)
        return where
