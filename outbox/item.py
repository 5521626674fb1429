"""What goes out, and where it went."""

from __future__ import annotations

from typing import NamedTuple

from edge import message_id
from edge.message_id import MessageId
from store_nodes.errors import Known
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message


class Item(NamedTuple):
    """`name` is unique in the topic, of any length: what has the same one is the same message, and
    is stored once."""

    message: Message
    name: bytes


class Placed(NamedTuple):
    """Where the message is; `duplicate`: it was there before."""

    partition: int
    lane: int
    offset: int
    """Of a message that was staged (then it is a duplicate): -1."""
    duplicate: bool
    message_id: str


def placed(queue: QueueId, offset: int, *, duplicate: bool = False) -> Placed:
    number = MessageId(message_id.FORM_OFFSET, queue.topic_uid, queue.partition, queue.lane, offset)
    return Placed(queue.partition, queue.lane, offset, duplicate, str(number))


def placed_before(known: Known) -> Placed:
    """Where the first message of that name is."""
    queue = QueueId.unpack(known.queue)
    if not known.staged:
        return placed(queue, known.position, duplicate=True)
    number = message_id.staged(
        queue.topic_uid, queue.partition, queue.generation, known.position, lane=queue.lane
    )
    return Placed(queue.partition, queue.lane, -1, True, str(number))
