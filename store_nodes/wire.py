"""The frames between store nodes and their clients: the list of their types.

Frames are those of `peering/rpc/frames.py`. Large bytes (a command, a batch, a peer's message) are
the body. A frame that fails a check ends its connection: its meaning is then unknown, and its
requests are retried on a new connection.

The handshake is that of `peering/rpc/handshake.py`, with the secret of the cluster. Each side
claims to be a `Remote`, and the listener sends a `Welcome`. After that, frames of a connection are
independent. A reply carries the id of its request, which the dialer chose.

Type numbers and field orders are frozen with `PROTOCOL_VERSION`; new fields go at the end with a
default (an older reader ignores them), new types get new numbers: an older node refuses a request
of such a type, as NotSupported, and ignores other frames of it. Times are in µs, durations in ms.
"""

from __future__ import annotations

import enum
import typing
from typing import NamedTuple

import msgspec

from peering.rpc.connection import FrameConnection
from peering.rpc.frames import Goodbye, Wire

PROTOCOL_VERSION = 3
"""The version of these frames and of the handshake; version 2 is transport/legacy.py."""

MAX_FRAME_BYTES = 32 * 1024 * 1024
REQUESTS = range(16, 64)
"""Type numbers of clients' requests; the first field of each is its id."""
REFUSED = 1
"""The `Goodbye.code` for a node that must not come back under this id with this data directory.

Trying again does not help; the text says what does.
"""


class Role(enum.IntEnum):
    """The role of the dialer."""

    CLIENT = 1
    PEER = 2


class Durability(enum.IntEnum):
    """The time at which an append is answered; the proposal path is the same for all."""

    NONE = 0
    """The leader has accepted it; it may be lost."""
    LEADER = 1
    """The leader's log has it, synced; it may be lost."""
    QUORUM = 2
    """A majority of the voters has it, synced."""
    ALL = 3
    """Every connected voter has it, synced, and so has a majority."""


class _Head(msgspec.Struct, array_like=True, gc=False):
    pass


class Remote(msgspec.Struct, array_like=True, frozen=True):
    """The claim of a side of a connection; it counts once the side has proved itself."""

    role: Role
    cluster_uid: bytes
    """The cluster; empty from a client that accepts any cluster that knows the secret."""
    node: int
    """The node's id; 0 for a client, as are `boot` and `tail`."""
    incarnation: bytes
    boot: int = 0
    """The number of the node's starts with this data directory."""
    tail: int = 0
    """The synced end of its log at that start: segment << 32 | offset."""
    run: bytes = b""
    """Random bytes of each start: two starts with one `boot` come from two copies of a
    directory.
    """


class Unknown(NamedTuple):
    """A frame of a later version, whose type has no class here.

    `id` is its first field, by which a request is refused; 0 if that is no number.
    """

    number: int
    id: int


# Records inside frames.


class LeaderView(_Head):
    """One node's knowledge of a group's leader. A claim with a higher ballot is newer."""

    group: int
    leader: int | None
    ballot: int
    log_time_us: int
    """The stamp for an entry proposed now; exact at the leader, a guess elsewhere."""


class QueueOffsets(_Head):
    """The start and the end of a queue: the offsets in [first, end) are readable."""

    queue: bytes
    first: int
    end: int
    stage_end: int = 0
    sealed: bool = False
    stored_bytes: int = 0
    """Bytes of the queue's live batches on the node that answers."""
    stage_changes: int = 0
    """A count that grows with each reschedule: see `Staged.changes_after`."""


class QueueInfo(_Head):
    """One row of `queues()`; `successors` of a sealed queue are (group, queue id)."""

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
    """Number of messages staged and neither released nor discarded."""


class NodeView(_Head):
    """A member of the cluster, as the groups' logs say. `address` is host:port."""

    node: int
    address: str
    labels: dict[str, str] = {}


class EntryHead(_Head):
    """One stored batch of a fetch; its bytes are the next `batch_bytes` of the frame's body.

    `stage` is None for appended messages; `indices` is None for all of the batch.
    """

    base_offset: int
    log_time_us: int
    stage: int | None
    indices: tuple[int, ...] | None
    batch_bytes: int


class StagedHead(_Head):
    """One staged batch of `StagedBatches`; its bytes are the next `batch_bytes` of the body."""

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


# Handshake and housekeeping: 1 … 15. Types 1 to 3 are those of release 0.2.0 (transport/legacy.py)
# and go with release 0.4.0; `peering/rpc/handshake.py` has the present handshake.


class Hello(_Head, tag=1):
    """The dialer speaks any protocol in [oldest, version]; the other fields are those of
    `Remote`.
    """

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
    """The first message of a node: to a client, its knowledge of leaders and members."""

    leaders: tuple[LeaderView, ...] = ()
    nodes: tuple[NodeView, ...] = ()


class Ping(_Head, tag=6):
    """A ping, answered at once with `Pong`: a node whose event loop hangs is found by its silence.

    Between peers `tail` is the end of the sender's synced log, in the form of `Remote.tail`.
    """

    id: int
    tail: int = 0


class Pong(_Head, tag=7):
    """The answer to a ping; it repeats the node's knowledge of leaders, which refreshes log
    times.
    """

    id: int
    leaders: tuple[LeaderView, ...] = ()


class Leaders(_Head, tag=8):
    """A change of leaders, sent to every client; `nodes` has those that changed, else it is
    empty.
    """

    leaders: tuple[LeaderView, ...]
    nodes: tuple[NodeView, ...] = ()


class Peer(_Head, tag=9):
    """One message of the consensus of `group`, as the body, opaque here."""

    group: int


# Requests: 16 … 63.


class Command(_Head, tag=16):
    """A command: the body is one whole command of commands.py."""

    id: int
    group: int
    durability: int
    timeout_ms: int


class Fetch(_Head, tag=17):
    """Answered by `Fetched`: whole batches from the one with `offset` on, at least one if there is
    any.
    """

    id: int
    group: int
    queue: bytes
    offset: int
    max_bytes: int


class Offsets(_Head, tag=18):
    """Answered by `OffsetsAre`.

    With `confirm`, only a leader answers that a majority confirmed after the request came in;
    without, any replica does, from its applied state.
    """

    id: int
    group: int
    queue: bytes
    confirm: bool
    timeout_ms: int


class OffsetAt(_Head, tag=19):
    """Answered by `OffsetIs` from a confirmed leader (see `Offsets`).

    The answer is the first offset whose log time is at or after `time_us`, else the end. With
    `last_bytes`, it is instead the lowest offset from which at most that many bytes are stored.
    """

    id: int
    group: int
    queue: bytes
    time_us: int
    last_bytes: int | None = None


class Queues(_Head, tag=20):
    """Answered by `QueuesAre` from a confirmed leader: at most `limit` queues with an id above
    `after`.

    They are in id order.
    """

    id: int
    group: int
    after: bytes
    limit: int


class Status(_Head, tag=21):
    """Answered by `StatusIs`; without `groups`, whose part takes longer the more they hold.

    A node of release 0.2.0 always answers with them.
    """

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
    """Ends a watch; for other requests, it only says that nobody waits for the reply any more."""

    id: int


class Staged(_Head, tag=25):
    """Answered by `StagedAre` from a confirmed leader: at most `limit` staged messages above
    `after`.

    An `after` of −1 means from the first. With `changes_after`, the messages rescheduled since that
    count of changes are returned instead.
    """

    id: int
    group: int
    queue: bytes
    after: int
    limit: int
    changes_after: int | None = None


class Locate(_Head, tag=26):
    """Answered by `LocationIs` from a confirmed leader."""

    id: int
    group: int
    queue: bytes
    stage_number: int


class Snapshot(_Head, tag=27):
    """Answered by `SnapshotPart`: a group's machine, from byte `offset` of snapshot `number` on.

    Number 0 asks for a new one. A number is valid until the node takes another snapshot for the
    same connection. A node whose machine covers fewer instances than `least` answers Unavailable.
    With `confirm`, only a confirmed leader takes a new one; else any replica does.
    """

    id: int
    group: int
    number: int
    offset: int
    least: int = 0
    confirm: bool = False


class FetchStaged(_Head, tag=28):
    """Answered by `StagedBatches`: whole staged batches from the one with `stage_number` on.

    Released ones that are not truncated are included.
    """

    id: int
    group: int
    queue: bytes
    stage_number: int
    max_bytes: int


# Replies: 64 … 111.


class Accepted(_Head, tag=64):
    """The early answer to a command of durability leader or none; the final one still follows."""

    id: int


class Appended(_Head, tag=65):
    """An append or stage took effect; `duplicate` marks the receipt of an earlier transmission."""

    id: int
    base_offset: int
    count: int
    log_time_us: int
    duplicate: bool


class Finished(_Head, tag=66):
    """Another command took effect.

    `value` is the end offset for a seal, the first offset for a truncate, the number of changed
    messages for a reschedule or discard, the counter for a compare_and_set, the membership's
    version for a reconfigure, else 0.
    """

    id: int
    value: int
    log_time_us: int


class Released(_Head, tag=67):
    """A release took effect: `offsets` has one offset per stage number.

    It has the old offset for a message released before, None for one that is discarded or
    truncated, and −1 for one that is not due yet and stays staged.
    """

    id: int
    offsets: tuple[int | None, ...]
    log_time_us: int


class Fetched(_Head, tag=68):
    """The batches of `entries`, one after the other, as the body."""

    id: int
    first_offset: int
    readable_end: int
    entries: tuple[EntryHead, ...]


class OffsetsAre(_Head, tag=69):
    """The answer to `Offsets`; `log_time_us` is that of the last entry that it includes."""

    id: int
    offsets: QueueOffsets
    log_time_us: int


class OffsetIs(_Head, tag=70):
    """The answer to `OffsetAt`."""

    id: int
    offset: int


class QueuesAre(_Head, tag=71):
    """The answer to `Queues`; fewer rows than the limit mean that these were the last."""

    id: int
    queues: tuple[QueueInfo, ...]


class StatusIs(_Head, tag=72):
    """The status, as the body: a map in MessagePack for people and dashboards, whose keys may
    change.
    """

    id: int


class Watched(_Head, tag=73):
    """Queues of a watch that changed, each with its latest state."""

    id: int
    queues: tuple[QueueOffsets, ...]


class Failed(_Head, tag=74):
    """An error of errors.py by its code.

    If it is `decided`, the log decided it: it holds for every transmission of the command and
    (except for QueueSealed and SequenceGap) used up its sequence. Otherwise this node refused the
    command and proposed nothing.
    """

    id: int
    code: int
    text: str
    decided: bool
    detail: tuple[int | bytes | tuple[int | bytes, ...] | None, ...] = ()


class StagedAre(_Head, tag=75):
    """The answer to `Staged`; `changes` is the count that it covers.

    `overrun` says that some changes since `changes_after` are forgotten, so that the client has to
    list all.
    """

    id: int
    staged: tuple[StagedInfo, ...]
    changes: int = 0
    overrun: bool = False


class LocationIs(_Head, tag=76):
    """The answer to `Locate`; `state` is "staged", "offset", "discarded" or "truncated"."""

    id: int
    state: str
    offset: int | None = None


class SnapshotPart(_Head, tag=77):
    """Bytes of the snapshot from the offset asked for, as the body.

    `applied` is the number of instances it covers, `oldest` the first instance that the node can
    still send by itself.
    """

    id: int
    number: int
    total_bytes: int
    applied: int
    oldest: int


class StagedBatches(_Head, tag=78):
    """The staged batches of `entries`, one after the other, as the body."""

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
    """Return the frame of a type that is none of ours; None for bytes that are no frame."""
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
