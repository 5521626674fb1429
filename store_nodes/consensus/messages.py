"""What replicas of one group say to each other. Ballots are packed ints, times µs."""

from __future__ import annotations

import enum

import msgspec

from store_nodes.consensus.ballot import Ballot

DigestAt = tuple[int, int, bytes]
"""(node, instance, digest): the node's chained digest after it applied that instance."""


class PreVote(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """Would you promise `ballot`? Changes nothing at the one asked. `chosen` is what I know."""

    ballot: Ballot
    chosen: int


class PreVoteReply(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """`chosen` lets a candidate that is behind learn from whoever turned it down."""

    ballot: Ballot
    granted: bool
    promised: Ballot
    chosen: int


class Prepare(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=3):
    """Phase 1 over every instance from `start` on."""

    ballot: Ballot
    start: int


class Promise(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """Sent once the promise is durable: what was accepted from `start` on, by instance.

    A value the promiser knows to be chosen carries the ballot CHOSEN. `wall_us` is its wall clock:
    a new leader has heard a majority's from the start.
    """

    ballot: Ballot
    accepted: tuple[tuple[int, Ballot, bytes], ...]
    chosen: int
    wall_us: int


class Nack(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=5):
    """Refused: I promised `promised`, or (same ballot) you are too far behind to be prepared."""

    ballot: Ballot
    promised: Ballot
    chosen: int


class Accept(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=6):
    """Phase 2. All below `chosen` is chosen, in this or an earlier ballot."""

    ballot: Ballot
    instance: int
    value: bytes
    chosen: int


class Accepted(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=7):
    """Sent once the accepts are durable."""

    ballot: Ballot
    instances: tuple[int, ...]


class Heartbeat(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=8):
    """I lead; `sequence` numbers the round that a reply confirms. All below `everywhere` is on the
    disk of every member."""

    ballot: Ballot
    chosen: int
    sequence: int
    digests: tuple[DigestAt, ...]
    everywhere: int = 0


class HeartbeatReply(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=9):
    """Still yours. `wall_us` is my wall clock, for log time; all below `delivered` is chosen and on
    my disk. With a `repair` token I do not vote until a membership bears it (reconfiguring.py)."""

    ballot: Ballot
    sequence: int
    wall_us: int
    delivered: int
    digest: DigestAt | None
    flags: int = 0
    repair: int = 0


class LearnRequest(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=10):
    """Send me what was chosen from `start` on."""

    start: int


class Flag(enum.IntFlag):
    """What a member says of itself in `HeartbeatReply.flags`."""

    DAMAGED = 1
    """Its log lost something: it confirms nothing, and wants to leave the voters for a while."""
    SLOW = 2
    """Its disk was too slow to lead with of late."""
    INSTALLING = 4
    """It is fetching a checkpoint."""


class Learned(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=11):
    """Chosen values of consecutive instances from `start` on; I know all below `chosen`."""

    start: int
    values: tuple[bytes, ...]
    chosen: int


class TransferLeadership(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=12):
    """The leader of `ballot` is idle and asks you to take over now, without a pre-vote."""

    ballot: Ballot


class TooOld(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=13):
    """What you asked to learn is gone here: I hold instances from `oldest` on. You need a
    checkpoint."""

    oldest: int


Message = (
    PreVote
    | PreVoteReply
    | Prepare
    | Promise
    | Nack
    | Accept
    | Accepted
    | Heartbeat
    | HeartbeatReply
    | LearnRequest
    | Learned
    | TransferLeadership
    | TooOld
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def decode(raw: bytes | memoryview) -> Message:
    """Raises msgspec.DecodeError for what is not a message of this version."""
    return _decoder.decode(raw)
