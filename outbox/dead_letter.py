"""A message as a dead letter, and a dead letter as a message again. Pure.

A dead letter is the message as it was (data, content type, key, its own attributes, priority) with
attributes that say where it came from and why. They come on top of the limit of attributes that
publishers have; what it has under these names from an earlier death is replaced.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from edge import message_id
from edge.message_id import MessageId
from metadata.delivery.deliveries import OpenDelivery
from metadata.types import Subscription
from outbox.reading import Stored
from store_nodes.record_batch import ORIGIN_STAGE_ID, Message

PREFIX = "packetboat-dead-letter-"
ORIGIN_DEAD_LETTER_OF = "dead_letter_of"
ORIGIN_REDRIVEN_FROM = "redriven_from"
ORIGIN_ONLY = "only"
"""The uid of the one subscription the message is for, in hex: all others pass over it."""
MAX_DETAIL_CHARS = 1024
_NOT_WRITTEN = "no dead letter yet: "


def original_id(topic_uid: bytes, partition: int, lane: int, offset: int, stored: Stored) -> str:
    """The id that its publisher and its consumers know it by."""
    if stored.stage is not None:
        return str(message_id.staged(topic_uid, partition, *stored.stage, lane=lane))
    forwarded = (stored.message.origin or {}).get(ORIGIN_STAGE_ID)
    if isinstance(forwarded, str):
        return forwarded
    return str(MessageId(message_id.FORM_OFFSET, topic_uid, partition, lane, offset))


def own_attributes(message: Message) -> dict[str, str]:
    """Without those of a death."""
    attributes = message.attributes or {}
    return {name: value for name, value in attributes.items() if not name.startswith(PREFIX)}


def dead_letter(
    stored: Stored,
    dead: OpenDelivery,
    subscription: Subscription,
    original: str,
    partition: int,
) -> Message:
    """What is written to the dead-letter topic."""
    about = {
        "reason": dead.reason.value,
        "detail": consumers_detail(dead.detail),
        "attempts": str(dead.attempts),
        "first-at": None if dead.first_us is None else rfc3339(dead.first_us),
        "last-at": None if dead.last_us is None else rfc3339(dead.last_us),
        "subscription": subscription.name,
        "topic": subscription.topic_name,
        "message-id": original,
        "publish-time": rfc3339(stored.log_time_us),
        "offset": str(dead.offset),
        "partition": str(partition),
    }
    ours = {PREFIX + name: value for name, value in about.items() if value is not None}
    return msgspec.structs.replace(
        stored.message,
        attributes=own_attributes(stored.message) | ours,
        deliver_at_us=0,
        ttl_ms=0,
        idempotency_key=None,
        origin={ORIGIN_DEAD_LETTER_OF: original},
    )


def revived(
    letter: Message, edit: Mapping[str, Any], letter_uid: bytes, only: bytes | None
) -> Message:
    """What is published when it is redriven. `edit`: that of a `Redrive`;
    `only`: the subscription that alone is to get it."""
    attributes = own_attributes(letter)
    for name, value in edit.get("attributes", {}).items():
        if value is None:
            attributes.pop(name, None)
        else:
            attributes[name] = value
    data = letter.data
    if "data_base64" in edit:
        data = a2b_base64(edit["data_base64"])
    origin: dict[str, str | int] = {ORIGIN_REDRIVEN_FROM: letter_uid.hex()}
    if only is not None:
        origin[ORIGIN_ONLY] = only.hex()
    return msgspec.structs.replace(
        letter,
        data=data,
        content_type=edit.get("content_type", letter.content_type),
        key=edit.get("key", letter.key),
        attributes=attributes or None,
        origin=origin,
    )


def not_written(why: str, before: str | None) -> str:
    """The detail of a delivery whose dead letter could not be written: why, and what its consumer
    had said."""
    said = consumers_detail(before)
    text = _NOT_WRITTEN + why.replace("\n", " ")[:MAX_DETAIL_CHARS]
    return text if said is None else f"{text}\n{said}"


def why_not_written(detail: str | None) -> str | None:
    """Of the detail of a delivery: why there is no dead letter, if that was tried."""
    if detail is None or not detail.startswith(_NOT_WRITTEN):
        return None
    return detail.partition("\n")[0].removeprefix(_NOT_WRITTEN)


def consumers_detail(detail: str | None) -> str | None:
    """Of the detail of a delivery: what its consumer said."""
    if detail is None or not detail.startswith(_NOT_WRITTEN):
        return detail
    return detail.partition("\n")[2] or None


def rfc3339(time_us: int) -> str:
    """UTC with microseconds."""
    seconds, micros = divmod(time_us, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"
