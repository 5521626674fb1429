"""Ids and fingerprints, by which a message that is sent again is known.

The log remembers an id for the topic's dedup window. An id is made from an `Idempotency-Key`, or
from the (producer, sequence) of a whole batch, one for each partition and kind (staged, lane) of
its messages:

    of a key     blake2b-16 (topic uid · key), person "pb-key"
    of a batch   blake2b-16 (topic uid · producer · sequence · partitions · partition · kind),
                 person "pb-batch"; the id is its first message's and stands for all of them

The fingerprint tells a repetition from another message under the same idempotency key. It covers
data, content type, key, attributes, publisher id and the delay as it was asked for. It does not
cover priority and TTL, because a publisher that sends a message again may be in more of a hurry.
Ids and fingerprints are in logs: other forwarders and later versions must compute the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from publish_forwarder.delays import Delay
from store_nodes.record_batch import Message

PRODUCER_BYTES = 16
_BATCH = struct.Struct("<QIIB")
_FINGERPRINT = struct.Struct("<Q")
_encode = msgspec.msgpack.Encoder().encode


class Producer(NamedTuple):
    """The sender of a batch and the number that it gave the batch, the same in every retry."""

    producer: bytes
    sequence: int

    @property
    def route(self) -> str:
        """The key by which the batch's messages without a key are routed."""
        return f"{self.producer.hex()}:{self.sequence}"


def key_id(topic_uid: bytes, key: str) -> bytes:
    """Return the id of one message."""
    return blake2b(topic_uid + key.encode("utf-8"), digest_size=16, person=b"pb-key").digest()


def batch_id(
    topic_uid: bytes, producer: Producer, partitions: int, partition: int, kind: int
) -> bytes:
    """Return the id of a batch's messages for one of `partitions` partitions.

    `kind` is whether they are staged, plus twice their lane.
    """
    place = _BATCH.pack(producer.sequence, partitions, partition, kind)
    content = topic_uid + producer.producer + place
    return blake2b(content, digest_size=16, person=b"pb-batch").digest()


def fingerprint(messages: Iterable[tuple[Message, Delay | None]]) -> int:
    """Return the fingerprint of one message, or of all that an id stands for, with their delays."""
    digest = blake2b(digest_size=8)
    for message, delay in messages:
        attributes = message.attributes
        head = (
            message.content_type,
            message.key,
            sorted(attributes.items()) if attributes else (),
            message.publisher_id,
            delay,
            len(message.data),
        )
        digest.update(_encode(head))
        digest.update(message.data)
    return int(_FINGERPRINT.unpack(digest.digest())[0])
