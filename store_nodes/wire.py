"""What travels between store nodes and their clients: the list of frame types.

Frames are those of `peering/rpc/frames.py`. Large bytes (a command, a batch, a peer's message) are
the body. A frame that fails a check ends its connection: what the other side meant is then unknown,
and its requests are retried on a new connection.

The handshake is that of `peering/rpc/handshake.py`, with the secret of the cluster. Each side
claims to be a `Remote`, and the listener tells a `Welcome`. After that, frames of a connection are
independent; a reply carries the id of its request, ids are the dialer's own.

Type numbers and field orders are frozen with `PROTOCOL_VERSION`; new fields go at the end with a
default (an older reader ignores them), new types get new numbers: an older node refuses a request
of such a type, as NotSupported, and passes over what is none. Times are µs, durations ms.
"""

from __future__ import annotations

import enum
import typing
from typing import NamedTuple

import msgspec

from peering.rpc.connection import FrameConnection
from peering.rpc.frames import Goodbye, Wire

PROTOCOL_VERSION = 3
"""Of what is said here and in the handshake; version 2 is transport/legacy.py."""

MAX_FRAME_BYTES = 32 * 1024 * 1024
REQUESTS = range(16, 64)
"""Type numbers of what a client asks; the first field of each is its id."""
REFUSED = 1
"""`Goodbye.code`: the node must not come back under this id with this data directory. Trying again
is of no use; the text says what is."""


class Role(enum.IntEnum):
    """What the dialer is."""

    CLIENT = 1
    PEER = 2


class Durability(enum.IntEnum):
    """When an append is answered; the proposal path is the same for all."""

    NONE = 0
    """Accepted by the leader; may be lost."""
    LEADER = 1
    """Synced in the leader's log; may be lost."""
    QUORUM = 2
    """Synced at a majority of the voters."""
    ALL = 3
    """Synced at every connected voter, and at a majority."""


class _Head(msgspec.Struct, array_like=True, gc=False):
    pass


class Remote(msgspec.Struct, array_like=True, frozen=True):
    """What a side of a connection claims to be, and once it has proved it, is."""

    role: Role
    cluster_uid: bytes
    """Empty from a client that accepts any cluster that knows the secret."""
    node: int
    """0 for a client, as are `boot` and `tail`."""
    incarnation: bytes
    boot: int = 0
    """How often the node has started with this data directory."""
    tail: int = 0
    """How far its log was synced at that start: segment << 32 | offset."""
    run: bytes = b""
    """Drawn at each start: two starts with one `boot` are of two copies of a directory."""


class Unknown(NamedTuple):
    """Read where a later version sent a frame whose type has no class here. `id` is its first
    field, by which a request is refused; 0 where that is no number."""

    number: int
    id: int


# Records inside frames.


class LeaderView(_Head):
    """What one node knows of a group. A claim with a higher ballot is newer."""

    group: int
    leader: int | None
    ballot: int
    log_time_us: int
    """What an entry proposed now would be stamped; exact at the leader, a guess elsewhere."""


class QueueOffsets(_Head):
    """Where a queue starts and ends: readable are the offsets in [first, end)."""

    queue: bytes
    first: int
    end: int
    stage_end: int = 0
    sealed: bool = False
    stored_bytes: int = 0
    """Of its live batches on the node that answers."""
    stage_changes: int = 0
    """Grows with each reschedule: see `Staged.changes_after`."""


class QueueInfo(_Head):
    """One row of `queues()`. `successors` are (group, queue id), of a sealed queue."""

    queue: bytes
    base: int
    first: int
    end: int
    sealed: bool
    meta: bytes
    successors: tuple[tuple[int, bytes], ...] = ()
    stage_end: int = 0
    stored_bytes: int = 0
    staged: int = 0
    """Messages staged and neither released nor discarded."""


class NodeView(_Head):
    """A member of the cluster, as the groups' logs say. `address` is host:port."""

    node: int
    address: str
    labels: dict[str, str] = {}


class EntryHead(_Head):
    """One stored batch of a fetch. `stage` is None for appended messages; `indices` None for all
    of the batch. The batch is the next `batch_bytes` of the frame's body."""

    base_offset: int
    log_time_us: int
    stage: int | None
    indices: tuple[int, ...] | None
    batch_bytes: int


class StagedHead(_Head):
    """One staged batch of `StagedBatches`, its bytes the next `batch_bytes` of the body."""

    base_stage: int
    count: int
    log_time_us: int
    batch_bytes: int


class StagedInfo(_Head):
    """One staged message that is neither released nor discarded."""

    stage_number: int
    due_us: int | None
    log_time_us: int
    tag: bytes = b""


# Handshake and housekeeping: 1 … 15. Of these 1 to 3 are of release 0.2.0 (transport/legacy.py) and
# go with release 0.4.0; what is said instead is in `peering/rpc/handshake.py`.


class Hello(_Head, tag=1):
    """The dialer speaks any protocol in [oldest, version]; the rest is as in `Remote`."""

    version: int
    oldest: int
    cluster_uid: bytes
    role: int
    node: int
    incarnation: bytes
    nonce: bytes
    boot: int = 0
    tail: int = 0
    run: bytes = b""


class Challenge(_Head, tag=2):
    """The listener's proof of the secret and its own nonce; `version` is the one to speak."""

    version: int
    cluster_uid: bytes
    node: int
    incarnation: bytes
    nonce: bytes
    proof: bytes
    boot: int = 0
    tail: int = 0
    run: bytes = b""


class Proof(_Head, tag=3):
    """The dialer's proof of the secret."""

    proof: bytes


class Welcome(_Head, tag=4):
    """What a node tells first: to a client, what it knows of the leaders and members."""

    leaders: tuple[LeaderView, ...] = ()
    nodes: tuple[NodeView, ...] = ()


class Ping(_Head, tag=6):
    """Answered at once with `Pong`: a node whose event loop hangs is found by its silence. Between
    peers `tail` says how far the sender's log is synced, in the form of `Remote.tail`."""

    id: int
    tail: int = 0


class Pong(_Head, tag=7):
    """Also repeats what the node knows of the leaders, which refreshes log times."""

    id: int
    leaders: tuple[LeaderView, ...] = ()


class Leaders(_Head, tag=8):
    """Pushed to every client when it changes; `nodes` when those changed, else empty."""

    leaders: tuple[LeaderView, ...]
    nodes: tuple[NodeView, ...] = ()


class Peer(_Head, tag=9):
    """Body: one message of the consensus of `group`, opaque here."""

    group: int


# Requests: 16 … 63.


class Command(_Head, tag=16):
    """Body: one whole command of commands.py."""

    id: int
    group: int
    durability: int
    timeout_ms: int


class Fetch(_Head, tag=17):
    """Answered `Fetched`: whole batches from the one holding `offset` on, at least one if any."""

    id: int
    group: int
    queue: bytes
    offset: int
    max_bytes: int


class Offsets(_Head, tag=18):
    """Answered `OffsetsAre`. With `confirm`, only by a leader that a majority confirmed after the
    request came in; without, by any replica from what it has applied."""

    id: int
    group: int
    queue: bytes
    confirm: bool
    timeout_ms: int


class OffsetAt(_Head, tag=19):
    """Answered `OffsetIs` by a confirmed leader (see `Offsets`): the first offset whose log time is
    at or after `time_us`, else end. With `last_bytes`, instead the lowest offset from which at most
    that many bytes are stored."""

    id: int
    group: int
    queue: bytes
    time_us: int
    last_bytes: int | None = None


class Queues(_Head, tag=20):
    """Answered `QueuesAre` by a confirmed leader: at most `limit` queues with an id above `after`,
    in id order."""

    id: int
    group: int
    after: bytes
    limit: int


class Status(_Head, tag=21):
    """Answered `StatusIs`. Without `groups`, which cost what they hold; a node of release 0.2.0
    answers with them all the same."""

    id: int
    groups: bool = True


class Watch(_Head, tag=22):
    """Opens a stream of `Watched` frames with this id, until `Cancel` or `Failed`."""

    id: int
    group: int


class WatchEdit(_Head, tag=23):
    """Changes the queues of an open watch; each added one is answered with its present state."""

    id: int
    add: tuple[bytes, ...]
    remove: tuple[bytes, ...]


class Cancel(_Head, tag=24):
    """Ends a watch; of other requests, only says that nobody waits for the reply any more."""

    id: int


class Staged(_Head, tag=25):
    """Answered `StagedAre` by a confirmed leader: at most `limit` staged messages with a number
    above `after` (−1: from the first). With `changes_after`, instead those rescheduled since that
    count of changes."""

    id: int
    group: int
    queue: bytes
    after: int
    limit: int
    changes_after: int | None = None


class Locate(_Head, tag=26):
    """Answered `LocationIs` by a confirmed leader."""

    id: int
    group: int
    queue: bytes
    stage_number: int


class Snapshot(_Head, tag=27):
    """Answered `SnapshotPart`: the machine of a group, from byte `offset` of snapshot `number` on
    (0: a new one). A number is good until the node takes another for the same connection. A node
    whose machine covers fewer instances than `least` answers Unavailable. With `confirm`, a new one
    is taken by a confirmed leader only; else by any replica."""

    id: int
    group: int
    number: int
    offset: int
    least: int = 0
    confirm: bool = False


class FetchStaged(_Head, tag=28):
    """Answered `StagedBatches`: whole staged batches from the one holding `stage_number` on, also
    released ones that are not truncated."""

    id: int
    group: int
    queue: bytes
    stage_number: int
    max_bytes: int


# Replies: 64 … 111.


class Accepted(_Head, tag=64):
    """Early answer to a command of durability leader or none; the final one still follows."""

    id: int


class Appended(_Head, tag=65):
    """An append or stage took effect. `duplicate`: the receipt of an earlier transmission."""

    id: int
    base_offset: int
    count: int
    log_time_us: int
    duplicate: bool


class Finished(_Head, tag=66):
    """Another command took effect. `value`: seal → the end offset, truncate → the first offset,
    reschedule and discard → how many were staged and changed, compare_and_set → the counter,
    reconfigure → the membership's version, else 0."""

    id: int
    value: int
    log_time_us: int


class Released(_Head, tag=67):
    """A release took effect: one offset per stage number (of one released before, its offset), None
    where it was discarded or truncated, −1 where it is not due yet and stays staged."""

    id: int
    offsets: tuple[int | None, ...]
    log_time_us: int


class Fetched(_Head, tag=68):
    """Body: the batches of `entries`, one after the other."""

    id: int
    first_offset: int
    readable_end: int
    entries: tuple[EntryHead, ...]


class OffsetsAre(_Head, tag=69):
    """`log_time_us` is that of the last entry the answer rests on."""

    id: int
    offsets: QueueOffsets
    log_time_us: int


class OffsetIs(_Head, tag=70):
    """Reply to `OffsetAt`."""

    id: int
    offset: int


class QueuesAre(_Head, tag=71):
    """Reply to `Queues`; fewer rows than the limit means that these were the last."""

    id: int
    queues: tuple[QueueInfo, ...]


class StatusIs(_Head, tag=72):
    """Body: a msgpack map for people and dashboards; keys may come and go."""

    id: int


class Watched(_Head, tag=73):
    """Queues of a watch that changed, each with its latest state."""

    id: int
    queues: tuple[QueueOffsets, ...]


class Failed(_Head, tag=74):
    """An error of errors.py by its code. `decided`: the log decided it, so it holds for every
    transmission of the command and (but for QueueSealed and SequenceGap) used up its sequence;
    otherwise this node refused and proposed nothing."""

    id: int
    code: int
    text: str
    decided: bool
    detail: tuple[int | bytes | tuple[int | bytes, ...] | None, ...] = ()


class StagedAre(_Head, tag=75):
    """Reply to `Staged`. `changes` is the count it covers; `overrun`: some of what was asked for by
    `changes_after` is forgotten, list all."""

    id: int
    staged: tuple[StagedInfo, ...]
    changes: int = 0
    overrun: bool = False


class LocationIs(_Head, tag=76):
    """`state`: "staged", "offset", "discarded" or "truncated"."""

    id: int
    state: str
    offset: int | None = None


class SnapshotPart(_Head, tag=77):
    """Body: bytes of the snapshot from the offset asked for. `applied`: the instances it covers;
    `oldest`: the first instance the node can still send by itself."""

    id: int
    number: int
    total_bytes: int
    applied: int
    oldest: int


class StagedBatches(_Head, tag=78):
    """Body: the batches of `entries`, one after the other."""

    id: int
    entries: tuple[StagedHead, ...]


Handshake = Hello | Challenge | Proof | Welcome | Goodbye
Request = (
    Command
    | Fetch
    | Offsets
    | OffsetAt
    | Queues
    | Status
    | Watch
    | WatchEdit
    | Cancel
    | Staged
    | Locate
    | Snapshot
    | FetchStaged
)
Reply = (
    Accepted
    | Appended
    | Finished
    | Released
    | Fetched
    | OffsetsAre
    | OffsetIs
    | QueuesAre
    | StatusIs
    | Watched
    | Failed
    | StagedAre
    | LocationIs
    | SnapshotPart
    | StagedBatches
)
Head = Handshake | Ping | Pong | Leaders | Peer | Request | Reply


# Frames.

MAX_QUEUED_BYTES = 64 * 1024 * 1024
WRITE_HIGH_WATER_BYTES = 4 * 1024 * 1024
_any_decoder: msgspec.msgpack.Decoder[list[typing.Any]] = msgspec.msgpack.Decoder(list)
_NUMBERS = frozenset(kind.__struct_config__.tag for kind in typing.get_args(Head))


def unknown(raw: memoryview) -> Unknown | None:
    """What is whole, and of a type that is none of ours; None for nonsense."""
    try:
        fields = _any_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not fields or not isinstance(fields[0], int) or fields[0] in _NUMBERS:
        return None
    first = fields[1] if len(fields) > 1 else None
    return Unknown(fields[0], first if isinstance(first, int) else 0)


WIRE: Wire[Head | Unknown] = Wire(
    msgspec.msgpack.Decoder(Head).decode,
    MAX_FRAME_BYTES,
    WRITE_HIGH_WATER_BYTES,
    MAX_QUEUED_BYTES,
    unknown,
)
StoreConnection = FrameConnection[Head | Unknown]
