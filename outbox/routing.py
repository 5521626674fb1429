"""The queues that a message of the platform is tried in.

Pure.

Its partition is that of its key, as for publishes. Without a key, the name decides, so that the
same message always takes the same way. A group knows the names of the messages stored there. While
a group that had the topic's messages before a move or a growth may remember a name, its old, sealed
queue is asked first; it answers with the names it knows, or that it is sealed.
"""

from __future__ import annotations

from appending.writer import Target
from edge.partition import partition_of
from metadata.types import Topic
from outbox.item import Item
from store_nodes.commands import REMEMBERED_WINDOWS
from store_nodes.queue_id import QueueId


def route_of(item: Item) -> str:
    """Return the key that decides the partition."""
    return item.message.key if item.message.key is not None else item.name.hex()


def way_of(topic: Topic, item: Item, now_us: int, window_s: int) -> tuple[Target, ...]:
    """Return the queues to try in turn: sealed ones that may know the name, then the open one."""
    route = route_of(item)
    lane = min(item.message.priority, topic.priorities - 1)
    number = partition_of(route, topic.partition_count)
    (here,) = (p for p in topic.partitions if p.number == number and p.lane == lane)
    oldest_us = now_us - int(window_s * REMEMBERED_WINDOWS * 1e6)
    asked = {here.group}
    way: list[Target] = []
    for sealed in sorted(topic.sealed, key=lambda one: one.sealed_time_us):
        if sealed.sealed_time_us < oldest_us or sealed.lane != lane or not sealed.of_partitions:
            continue
        if sealed.group in asked or partition_of(route, sealed.of_partitions) != sealed.number:
            continue
        asked.add(sealed.group)
        way.append(
            Target(
                sealed.group,
                QueueId(topic.uid, sealed.number, sealed.lane, sealed.generation),
            )
        )
    queue = QueueId(topic.uid, here.number, here.lane, here.generation)
    return (*way, Target(here.group, queue))
