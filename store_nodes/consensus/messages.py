"""Messages between the replicas of one group.

Ballots are packed ints, times are in µs.

Promise and Accepted leave only once the records that they speak of are durable.
"""

from __future__ import annotations

import enum

import msgspec

from store_nodes.consensus.ballot import Ballot

DigestAt = tuple[int, int, bytes]
"""A (node, instance, digest): the node's chained digest after it applied that instance."""


class PreVote(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """Asks whether the receiver would promise `ballot`; `chosen` is the sender's.

    It changes nothing there.
    """

    ballot: Ballot
    chosen: int


class PreVoteReply(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """The answer to a PreVote; by `chosen`, a refused candidate that is behind can learn from the
    sender.
    """

    ballot: Ballot
    granted: bool
    promised: Ballot
    chosen: int


class Prepare(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=3):
    """Phase 1 over every instance from `start` on."""

    ballot: Ballot
    start: int


class Promise(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """The answer to a Prepare, sent once the promise is durable: values accepted from `start` on.

    A value that the sender knows to be chosen carries the ballot CHOSEN. `wall_us` is the sender's
    wall clock, so that a new leader has heard a majority's from the start.
    """

    ballot: Ballot
    accepted: tuple[tuple[int, Ballot, bytes], ...]
    chosen: int
    wall_us: int


class Nack(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=5):
    """A refusal: the sender promised `promised`, or (in the same ballot) the receiver is too far
    behind.
    """

    ballot: Ballot
    promised: Ballot
    chosen: int


class Accept(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=6):
    """Phase 2: a proposal. All below `chosen` is chosen, in this or an earlier ballot."""

    ballot: Ballot
    instance: int
    value: bytes
    chosen: int


class Accepted(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=7):
    """Votes for accepts, sent once those are durable."""

    ballot: Ballot
    instances: tuple[int, ...]


class Heartbeat(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=8):
    """The sender leads; `sequence` numbers the round that a reply confirms.

    All below `everywhere` is on the disk of every member.
    """

    ballot: Ballot
    chosen: int
    sequence: int
    digests: tuple[DigestAt, ...]
    everywhere: int = 0


class HeartbeatReply(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=9):
    """The answer to a Heartbeat: the sender still follows.

    `wall_us` is its wall clock, for log time; all below `delivered` is chosen and on its disk. A
    sender with a `repair` token does not vote until a membership has that token
    (reconfiguration.py).
    """

    ballot: Ballot
    sequence: int
    wall_us: int
    delivered: int
    digest: DigestAt | None
    flags: int = 0
    repair: int = 0


class LearnRequest(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=10):
    """Asks for the chosen values from `start` on."""

    start: int


class Flag(enum.IntFlag):
    """The flags of a member in `HeartbeatReply.flags`."""

    DAMAGED = 1
    """The member's log lost records: it confirms nothing, and asks to leave the voters for a
    while.
    """
    SLOW = 2
    """The member's disk was too slow recently to lead with."""
    INSTALLING = 4
    """The member fetches a checkpoint."""


class Learned(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=11):
    """Chosen values of consecutive instances from `start` on; the sender knows all below
    `chosen`.
    """

    start: int
    values: tuple[bytes, ...]
    chosen: int


class TransferLeadership(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=12):
    """The leader of `ballot` has nothing open and asks the receiver to take over, without a
    pre-vote.
    """

    ballot: Ballot


class TooOld(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=13):
    """The values asked for are gone at the sender, which holds instances from `oldest` on.

    The receiver needs a checkpoint.
    """

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
    """Decode a message; raises msgspec.DecodeError for bytes that are none of this version."""
    return _decoder.decode(raw)
