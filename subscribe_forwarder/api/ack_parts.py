"""The split of a request's ids by partition, and the request to each owner for its ids."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from edge import message_id
from edge.message_id import BadMessageId, MessageId
from metadata.types import Subscription, Topic
from openapi.consume import Acked, Done
from subscribe_forwarder.api.items import Ids
from subscribe_forwarder.delivery import ack_id
from subscribe_forwarder.delivery.ack_id import BadAckId
from subscribe_forwarder.delivery.reading.staged import Nowhere, Where

ANYWHERE = -1
"""Stands for the partition of what names none: any owner says why."""
_ID_FIELDS = ("ack_id", "message_id", "ack_ids", "message_ids")
Locate = Callable[[Sequence[MessageId]], Awaitable[Sequence[Where | Nowhere]]]


async def by_partition(
    ids: Ids, subscription: Subscription, topic: Topic, locate: Locate
) -> dict[int, list[int]]:
    """Return the places of the ids in the request, by partition; nothing is verified here.

    Asks `locate` for ids of the stage form only; raises what it raises.
    """
    if ids.field == "ack_id":
        return _grouped(enumerate(_of_ack_id(text, subscription) for text in ids.texts))
    partitions: dict[int, int] = {}
    staged: dict[int, MessageId] = {}
    for item, text in enumerate(ids.texts):
        parsed = _message_id(text)
        if parsed is None or parsed.topic_uid != topic.uid:
            partitions[item] = ANYWHERE
        elif parsed.form == message_id.FORM_STAGE:
            staged[item] = parsed
        else:
            partitions[item] = parsed.partition
    found = await locate(list(staged.values())) if staged else ()
    for (item, parsed), where in zip(staged.items(), found, strict=True):
        partitions[item] = where.partition if isinstance(where, Where) else parsed.partition
    known = topic.partition_count
    return _grouped((i, n if n < known else ANYWHERE) for i, n in sorted(partitions.items()))


def part_body(body: bytes, ids: Ids, items: Sequence[int]) -> bytes:
    """Return the request for some of its ids alone; `items` ascend."""
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    kept = {name: value for name, value in members.items() if name not in _ID_FIELDS}
    return msgspec.json.encode({**kept, ids.field + "s": [ids.texts[item] for item in items]})


def merged(parts: Sequence[tuple[Sequence[int], Acked | Done]]) -> Acked | Done:
    """Merge the answers to the parts of a request: add counts, and order results by their places in
    the request.

    An ack that publishes has one part, and its other members are the answer's.
    """
    count, results = 0, []
    for items, answer in parts:
        count += answer.acked if isinstance(answer, Acked) else answer.done
        for one in answer.results:
            one.index = items[one.index]
            results.append(one)
    results.sort(key=lambda one: one.index)
    _, whole = parts[0]
    if isinstance(whole, Done):
        return Done(count, results)
    return replace(whole, acked=count, results=results)


def _of_ack_id(text: str, subscription: Subscription) -> int:
    try:
        head = ack_id.parse_head(text)
    except BadAckId:
        return ANYWHERE
    return head.partition if head.subscription_uid == subscription.uid else ANYWHERE


def _message_id(text: str) -> MessageId | None:
    try:
        return message_id.parse(text)
    except BadMessageId:
        return None


def _grouped(partitions: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    grouped: dict[int, list[int]] = {}
    for item, partition in partitions:
        grouped.setdefault(partition, []).append(item)
    return grouped
