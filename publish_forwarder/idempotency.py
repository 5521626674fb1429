"""Which messages are the same one sent again: ids, fingerprints, and who waits for whom.

An id is remembered by the log for the topic's dedup window. It comes of an `Idempotency-Key`, or of
the (producer, sequence) of a whole batch, one per partition and kind (staged, lane) of what is in
it:

    of a key     blake2b-16 (topic uid · key), person "pb-key"
    of a batch   blake2b-16 (topic uid · producer · sequence · partitions · partition · kind),
                 person "pb-batch"; the id is its first message's and stands for all of them

The fingerprint tells a repetition from another message under the same key: data, content type,
ordering key, attributes, publisher id and the delay as it was asked for. Priority and TTL are not
in it: who sends a message again may have less time for it, or more haste. Both are in logs: other
forwarders and later versions must compute the same.
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
    """Who sends a batch, and the number it gave the batch: the same in every retry of it."""

    producer: bytes
    sequence: int

    @property
    def route(self) -> str:
        """What its messages without a key are routed by."""
        return f"{self.producer.hex()}:{self.sequence}"


class Id(NamedTuple):
    """Of the message `at` that index of a parcel, or of as many from there on as it `covers`."""

    at: int
    name: bytes
    fingerprint: int
    covers: int = 1


def key_id(topic_uid: bytes, key: str) -> bytes:
    """The id of one message."""
    return blake2b(topic_uid + key.encode("utf-8"), digest_size=16, person=b"pb-key").digest()


def batch_id(
    topic_uid: bytes, producer: Producer, partitions: int, partition: int, kind: int
) -> bytes:
    """The id of what a batch has for one partition, of `partitions` at that time. `kind` is whether
    it is staged, and twice its lane."""
    place = _BATCH.pack(producer.sequence, partitions, partition, kind)
    content = topic_uid + producer.producer + place
    return blake2b(content, digest_size=16, person=b"pb-batch").digest()


def fingerprint(messages: Iterable[tuple[Message, Delay | None]]) -> int:
    """Of one message, or of all that an id stands for, with their delays."""
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
