"""A message of the platform on its way out, and the place where it is stored."""

from __future__ import annotations

from typing import NamedTuple

from edge import message_id
from edge.message_id import MessageId
from store_nodes.errors import Known
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message


class Item(NamedTuple):
    """A message with a name that is unique in the topic, of any length.

    Messages with the same name are the same message, and are stored once.
    """

    message: Message
    name: bytes


class StoredPosition(NamedTuple):
    """The place of a stored message; `duplicate` says that it was stored before."""

    partition: int
    lane: int
    offset: int
    """The offset; -1 for a message that was staged, which is then a duplicate."""
    duplicate: bool
    message_id: str


def placed(queue: QueueId, offset: int, *, duplicate: bool = False) -> StoredPosition:
    number = MessageId(message_id.FORM_OFFSET, queue.topic_uid, queue.partition, queue.lane, offset)
    return StoredPosition(queue.partition, queue.lane, offset, duplicate, str(number))


def placed_before(known: Known) -> StoredPosition:
    """Return the place of the first message of that name."""
    queue = QueueId.unpack(known.queue)
    if not known.staged:
        return placed(queue, known.position, duplicate=True)
    number = message_id.staged(
        queue.topic_uid, queue.partition, queue.generation, known.position, lane=queue.lane
    )
    return StoredPosition(queue.partition, queue.lane, -1, True, str(number))
