"""Makes dead letters of messages, and messages of dead letters again.

Pure.

A dead letter is the original message (data, content type, key, its own attributes, priority) with
attributes that give its source and the reason. They do not count against the limit of attributes
that publishers have. Attributes of these names from an earlier dead letter are replaced.
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
"""The member with the uid of the one subscription that the message is for, in hex.

All other subscriptions pass over the message.
"""
MAX_DETAIL_CHARS = 1024
_NOT_WRITTEN = "no dead letter yet: "


def original_id(topic_uid: bytes, partition: int, lane: int, offset: int, stored: Stored) -> str:
    """Return the id by which the message's publisher and consumers know it."""
    if stored.stage is not None:
        return str(message_id.staged(topic_uid, partition, *stored.stage, lane=lane))
    forwarded = (stored.message.origin or {}).get(ORIGIN_STAGE_ID)
    if isinstance(forwarded, str):
        return forwarded
    return str(MessageId(message_id.FORM_OFFSET, topic_uid, partition, lane, offset))


def own_attributes(message: Message) -> dict[str, str]:
    """Return the attributes without those of a dead letter."""
    attributes = message.attributes or {}
    return {name: value for name, value in attributes.items() if not name.startswith(PREFIX)}


def dead_letter(
    stored: Stored,
    dead: OpenDelivery,
    subscription: Subscription,
    original: str,
    partition: int,
) -> Message:
    """Return the message that is written to the dead-letter topic."""
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
    """Return the message that is published when a dead letter is redriven.

    `edit` is that of a `Redrive`; `only` is the subscription that alone is to get it.
    """
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
    """Return the detail of a delivery whose dead letter could not be written.

    It gives the reason, and the detail that its consumer gave.
    """
    said = consumers_detail(before)
    text = _NOT_WRITTEN + why.replace("\n", " ")[:MAX_DETAIL_CHARS]
    return text if said is None else f"{text}\n{said}"


def why_not_written(detail: str | None) -> str | None:
    """Return why a delivery with this detail has no dead letter; None if none was tried."""
    if detail is None or not detail.startswith(_NOT_WRITTEN):
        return None
    return detail.partition("\n")[0].removeprefix(_NOT_WRITTEN)


def consumers_detail(detail: str | None) -> str | None:
    """Return the part of a delivery's detail that its consumer gave."""
    if detail is None or not detail.startswith(_NOT_WRITTEN):
        return detail
    return detail.partition("\n")[2] or None


def rfc3339(time_us: int) -> str:
    """Return a time in UTC with microseconds."""
    seconds, micros = divmod(time_us, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"
