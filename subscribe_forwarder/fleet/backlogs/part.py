"""The part of a subscription's backlog that one forwarder knows, as it tells others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Share(msgspec.Struct, frozen=True, array_like=True):
    """One partition of the subscription, all its priorities together."""

    partition: int
    messages: int
    """The messages that are not settled, leased ones and those never delivered included."""
    leased: int


class Totals:
    """The sums of the shares of a backlog."""

    __slots__ = ()
    shares: tuple[Share, ...]

    @property
    def messages(self) -> int:
        return sum(share.messages for share in self.shares)

    @property
    def leased(self) -> int:
        return sum(share.leased for share in self.shares)


class Part(Totals, msgspec.Struct, frozen=True, array_like=True):
    """The counts of one subscription in what the forwarder owns; no shares: nothing."""

    subscription_uid: bytes
    number: int
    """The order among the parts of one forwarder: the part with the higher number is newer."""
    shares: tuple[Share, ...] = ()
    waiting: int = 0
    """Pulls that wait there, those that other forwarders registered included."""
    streams: int = 0
    delivered_per_s: float = 0.0
    paused: str | None = None

    def says_the_same(self, other: Part) -> bool:
        """Return whether both parts say the same, whatever their numbers."""
        return msgspec.structs.replace(other, number=self.number) == self


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """A subscription of which somebody wants to hear."""

    tenant_id: bytes
    topic_uid: bytes
    subscription_uid: bytes
    partitions: int
    """The number of partitions of the topic, as far as the asker knows."""


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """Changes what a peer is told: from now on also `add`, and no more `drop`."""

    add: tuple[Wanted, ...] = ()
    drop: tuple[bytes, ...] = ()


_encode = msgspec.msgpack.encode
_parts = msgspec.msgpack.Decoder(list[Part])
_filter = msgspec.msgpack.Decoder(Filter)


def encode_parts(parts: Sequence[Part]) -> bytes:
    return _encode(parts)


def decode_parts(body: bytes) -> list[Part]:
    """Raises msgspec.DecodeError."""
    return _parts.decode(body)


def encode_filter(filter_: Filter) -> bytes:
    return _encode(filter_)


def decode_filter(body: bytes) -> Filter:
    """Raises msgspec.DecodeError."""
    return _filter.decode(body)
