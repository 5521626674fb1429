"""Encodes and decodes the replicated machine's commands, and the Paxos values that carry them.

docs/file-format.md describes them for people.

Value (one per instance), little-endian:

    version u8 (1) · kind u8 (0 no-op, 1 commands, 2 membership) · count u16 · log time u64 (µs) ·
    count × command

Command:

    kind u8 · flags u8 · window u16 · length u32 · body (length bytes)

`window` is the time for which the ids of an append or stage are remembered, in steps of 2 s, 0 for
`DEDUP_WINDOW_S`. It is 0 in other commands, and without dedup entries. A value of kind membership
holds exactly one `reconfigure`.

An append is the hot path and has a fixed binary body, so that neither the node nor a reader ever
re-encodes a batch; the body of every other command is a msgpack array of its fields in order.

Append body (also `stage`, whose extras follow the dedup section as msgpack before the batch):

    queue id 25 B · session 16 B · seq u64 · deadline u64 (µs log time) · count u32 ·
    dedup length u32 · extras length u32 · batch length u32 · dedup · extras · batch

Dedup section: per entry index u32 · 16 B hash of (topic uid, id) · u64 body fingerprint.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec

from store_nodes.queue_id import QUEUE_ID_BYTES, QueueId
from store_nodes.record_batch import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES

VALUE_VERSION = 1
GROUPS_COUNTER = "groups"
"""The counter of group 0 with the number of groups, once it is more than the settings say."""
MAX_COMMANDS_PER_VALUE = 0xFFFF
MAX_META_BYTES = 1024
MAX_TAG_BYTES = 64
SESSION_BYTES = 16
DEDUP_ENTRY = struct.Struct("<I16sQ")
MAX_DEDUP_ENTRIES_PER_MESSAGE = 2
MAX_STAGE_NUMBERS = 10_000
"""Stage numbers in one release, reschedule or discard."""
DEDUP_WINDOW_S = 600
REMEMBERED_WINDOWS = 1.25
"""Windows for which an id is remembered at most (machine/dedup.py)."""
DEDUP_WINDOW_STEP_S = 2

_VALUE = struct.Struct("<BBHQ")
_COMMAND = struct.Struct("<BBHI")
_APPEND = struct.Struct("<25s16sQQIIII")
COMMAND_HEADER_BYTES = _COMMAND.size
VALUE_HEADER_BYTES = _VALUE.size


class ValueKind(enum.IntEnum):
    """The kind of value that an instance has."""

    NOOP = 0
    COMMANDS = 1
    MEMBERSHIP = 2


class CommandKind(enum.IntEnum):
    """The kind of a command, one byte on the wire and on disk; a number is never reused."""

    CREATE = 1
    SEAL = 2
    DELETE = 3
    APPEND = 4
    STAGE = 5
    RELEASE = 6
    RESCHEDULE = 7
    DISCARD = 8
    TRUNCATE = 9
    CHECKPOINT = 10
    RECONFIGURE = 11
    TRANSFER = 12
    COMPARE_AND_SET = 13


class BadCommand(ValueError):
    """The bytes are no command or value of this version."""


Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Numbers = Annotated[tuple[Natural, ...], msgspec.Meta(max_length=MAX_STAGE_NUMBERS)]


class Create(msgspec.Struct, array_like=True, frozen=True):
    """Create a queue whose first offset is `base`; repeating it with the same fields changes
    nothing.
    """

    queue: bytes
    base: int
    meta: bytes


class Seal(msgspec.Struct, array_like=True, frozen=True):
    """End a queue: with no successors (deleted), one (moved) or many (grown), as (group, queue
    id).
    """

    queue: bytes
    successors: tuple[tuple[int, bytes], ...] = ()


class Delete(msgspec.Struct, array_like=True, frozen=True):
    """Forget a queue's messages; a tombstone stays, so that the id is never used again."""

    queue: bytes


class Append(NamedTuple):
    """Messages for one queue; `batch_at` is the start of the batch in the decoded bytes."""

    queue: bytes
    session: bytes
    seq: int
    deadline_us: int
    messages: int
    dedup: bytes
    batch_at: int
    batch_bytes: int
    dedup_window_us: int = 0
    """Time for which the ids of `dedup` are remembered; 0 without any."""


class Stage(NamedTuple):
    """An append that gets stage numbers instead of offsets; `extras` is StageExtras in
    MessagePack.
    """

    append: Append
    extras: StageExtras


class StageExtras(msgspec.Struct, array_like=True, frozen=True):
    """The extra fields of a stage.

    `due_us` has one time per message, or is None for messages that are held until they are released
    by number.
    """

    due_us: tuple[Natural, ...] | None
    tag: bytes = b""


class Release(msgspec.Struct, array_like=True, frozen=True):
    """Give staged messages their offsets, in the order of their numbers here."""

    queue: bytes
    stage_numbers: Numbers


class Reschedule(msgspec.Struct, array_like=True, frozen=True):
    """Change the due times of staged messages."""

    queue: bytes
    stage_numbers: Numbers
    due_us: Numbers


class Discard(msgspec.Struct, array_like=True, frozen=True):
    """Drop staged messages; a later release of them changes nothing."""

    queue: bytes
    stage_numbers: Numbers


class Truncate(msgspec.Struct, array_like=True, frozen=True):
    """Drop offsets below `upto` except `keep`, which replaces the kept set of the last
    truncation.
    """

    queue: bytes
    upto: int
    keep: tuple[int, ...] = ()


class Checkpoint(msgspec.Struct, array_like=True, frozen=True):
    """Make every replica write a checkpoint when it applies this."""

    reason: str = ""


class Reconfigure(msgspec.Struct, array_like=True, frozen=True):
    """Change the membership by one step: `node` becomes learner, voter or removed, from `version`
    on.
    """

    version: int
    node: int
    role: str
    address: str
    labels: dict[str, str]


class Transfer(msgspec.Struct, array_like=True, frozen=True):
    """Record in the log that `node` should lead this group."""

    node: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]


class CompareAndSet(msgspec.Struct, array_like=True, frozen=True):
    """Set the counter `name` to `new` if it is `expected` (0 if never set)."""

    name: str
    expected: Natural
    new: Natural


ControlCommand = (
    Create
    | Seal
    | Delete
    | Release
    | Reschedule
    | Discard
    | Truncate
    | Checkpoint
    | Reconfigure
    | Transfer
    | CompareAndSet
)
Command = ControlCommand | Append | Stage

_CONTROL: dict[CommandKind, type[ControlCommand]] = {
    CommandKind.CREATE: Create,
    CommandKind.SEAL: Seal,
    CommandKind.DELETE: Delete,
    CommandKind.RELEASE: Release,
    CommandKind.RESCHEDULE: Reschedule,
    CommandKind.DISCARD: Discard,
    CommandKind.TRUNCATE: Truncate,
    CommandKind.CHECKPOINT: Checkpoint,
    CommandKind.RECONFIGURE: Reconfigure,
    CommandKind.TRANSFER: Transfer,
    CommandKind.COMPARE_AND_SET: CompareAndSet,
}
_ONE_STEP = [CommandKind.RECONFIGURE]
_VALUE_KINDS = {kind.value: kind for kind in ValueKind}
_KINDS = {kind.value: kind for kind in CommandKind}
_KIND_OF = {cls: kind for kind, cls in _CONTROL.items()}
_encoder = msgspec.msgpack.Encoder()
_decoders = {kind: msgspec.msgpack.Decoder(cls) for kind, cls in _CONTROL.items()}
_extras_decoder = msgspec.msgpack.Decoder(StageExtras)


def encode(command: ControlCommand) -> bytes:
    """Return a whole command (header and body) of any kind except append and stage."""
    body = _encoder.encode(command)
    return _COMMAND.pack(_KIND_OF[type(command)], 0, 0, len(body)) + body


def encode_append(
    queue: bytes,
    session: bytes,
    seq: int,
    deadline_us: int,
    count: int,
    batch: bytes,
    dedup: bytes = b"",
    extras: StageExtras | None = None,
    *,
    dedup_window_s: int = DEDUP_WINDOW_S,
) -> bytes:
    """Return the bytes of an append command, or of a stage command if there are extras."""
    if extras is None:
        kind, more = CommandKind.APPEND, b""
    else:
        kind, more = CommandKind.STAGE, _encoder.encode(extras)
    length = _APPEND.size + len(dedup) + len(more) + len(batch)
    named = len(dedup) > 0 and dedup_window_s != DEDUP_WINDOW_S
    window = -(-dedup_window_s // DEDUP_WINDOW_STEP_S) if named else 0
    return b"".join(
        (
            _COMMAND.pack(kind, 0, window, length),
            _APPEND.pack(
                queue, session, seq, deadline_us, count, len(dedup), len(more), len(batch)
            ),
            dedup,
            more,
            batch,
        )
    )


def check(raw: bytes) -> CommandKind:
    """Return the kind of one whole command from a client, after the checks of `parse`."""
    parse(raw)
    return _KINDS[raw[0]]


def parse(raw: bytes) -> Command:
    """Return a command of a client after the checks that a leader makes before it proposes.

    Raises BadCommand. It is cheap, because an append's batch is not examined.
    """
    if len(raw) < _COMMAND.size:
        raise BadCommand("shorter than a command header")
    kind, _, window, length = _COMMAND.unpack_from(raw)
    if length != len(raw) - _COMMAND.size:
        raise BadCommand("length does not match")
    known = _KINDS.get(kind)
    if known is None:
        raise BadCommand(f"unknown command kind {kind}")
    command = _decode_body(known, raw, _COMMAND.size, length, window)
    _check_control(command)
    return command


def _check_control(command: Command) -> None:
    """Raise BadCommand for a control command with bad queue ids or counts. An append's queue id has
    a fixed place and cannot be too short.
    """
    if isinstance(command, Append | Stage):
        return
    names = [command.queue] if hasattr(command, "queue") else []
    if isinstance(command, Reschedule) and len(command.stage_numbers) != len(command.due_us):
        raise BadCommand("a reschedule has one due time per stage number")
    if isinstance(command, Seal):
        names += [queue for _, queue in command.successors]
    if any(len(name) != QUEUE_ID_BYTES for name in names):
        raise BadCommand(f"a queue id has {QUEUE_ID_BYTES} bytes")


def encode_value(commands: Sequence[bytes], log_time_us: int) -> bytes:
    """Return one Paxos value with whole commands; every replica decodes it to the same."""
    assert 0 < len(commands) <= MAX_COMMANDS_PER_VALUE
    head = _VALUE.pack(VALUE_VERSION, ValueKind.COMMANDS, len(commands), log_time_us)
    return b"".join((head, *commands))


def encode_noop(log_time_us: int) -> bytes:
    return _VALUE.pack(VALUE_VERSION, ValueKind.NOOP, 0, log_time_us)


def encode_membership(step: Reconfigure, log_time_us: int) -> bytes:
    """Return a value of kind MEMBERSHIP."""
    head = _VALUE.pack(VALUE_VERSION, ValueKind.MEMBERSHIP, 1, log_time_us)
    return head + encode(step)


def is_membership(value: bytes | memoryview) -> bool:
    """Return whether a value changes the membership, by one byte of it."""
    return value[1] == ValueKind.MEMBERSHIP


def value_head(value: bytes | memoryview) -> tuple[ValueKind, int, int]:
    """Return the kind, the count and the log time (µs) of a value; raise BadCommand."""
    if len(value) < _VALUE.size:
        raise BadCommand("shorter than a value header")
    version, kind, count, log_time_us = _VALUE.unpack_from(value)
    if version != VALUE_VERSION:
        raise BadCommand(f"value version {version}")
    known = _VALUE_KINDS.get(kind)
    if known is None:
        raise BadCommand(f"unknown value kind {kind}")
    return known, count, log_time_us


def decode_value(value: bytes | memoryview) -> list[tuple[CommandKind, Command]]:
    """Return the commands of a value in order; raise BadCommand.

    `Append.batch_at` counts from the value's first byte.
    """
    kind, count, _ = value_head(value)
    if kind is ValueKind.NOOP:
        return []
    commands: list[tuple[CommandKind, Command]] = []
    at = _VALUE.size
    for _ in range(count):
        if len(value) - at < _COMMAND.size:
            raise BadCommand("cut within a command header")
        number, _, window, length = _COMMAND.unpack_from(value, at)
        at += _COMMAND.size
        if length > len(value) - at:
            raise BadCommand("cut within a command")
        command_kind = _KINDS.get(number)
        if command_kind is None:
            raise BadCommand(f"unknown command kind {number}")
        commands.append((command_kind, _decode_body(command_kind, value, at, length, window)))
        at += length
    if at != len(value):
        raise BadCommand("bytes after the last command")
    if kind is ValueKind.MEMBERSHIP and [kind for kind, _ in commands] != _ONE_STEP:
        raise BadCommand("a membership value holds one reconfigure")
    return commands


def _decode_body(
    kind: CommandKind, raw: bytes | memoryview, at: int, length: int, window: int
) -> Command:
    """Return the command with the given body; raise BadCommand."""
    if kind is CommandKind.APPEND or kind is CommandKind.STAGE:
        return _decode_append(kind, raw, at, length, window)
    try:
        return _decoders[kind].decode(memoryview(raw)[at : at + length])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadCommand(str(error)) from error


def _decode_append(
    kind: CommandKind, raw: bytes | memoryview, at: int, length: int, window: int
) -> Append | Stage:
    """Return an append or a stage after its checks; raise BadCommand. The batch is not examined."""
    if length < _APPEND.size:
        raise BadCommand("shorter than an append header")
    queue, session, seq, deadline_us, count, dedup_bytes, extras_bytes, batch_bytes = (
        _APPEND.unpack_from(raw, at)
    )
    if _APPEND.size + dedup_bytes + extras_bytes + batch_bytes != length:
        raise BadCommand("append lengths do not add up")
    if not 0 < count <= MAX_BATCH_MESSAGES or batch_bytes > MAX_BATCH_BYTES:
        raise BadCommand(f"batch of {count} messages, {batch_bytes} bytes is over the limit")
    dedup_at = at + _APPEND.size
    batch_at = dedup_at + dedup_bytes + extras_bytes
    dedup = bytes(raw[dedup_at : dedup_at + dedup_bytes]) if dedup_bytes else b""
    window_us = 0
    if dedup:
        _check_dedup(dedup, count)
        window_us = (window * DEDUP_WINDOW_STEP_S or DEDUP_WINDOW_S) * 1_000_000
    append = Append(
        queue, session, seq, deadline_us, count, dedup, batch_at, batch_bytes, window_us
    )
    if kind is CommandKind.APPEND:
        return append
    extras_at = dedup_at + dedup_bytes
    try:
        extras = _extras_decoder.decode(memoryview(raw)[extras_at:batch_at])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadCommand(str(error)) from error
    if len(extras.tag) > MAX_TAG_BYTES:
        raise BadCommand(f"a tag has at most {MAX_TAG_BYTES} bytes")
    if extras.due_us is not None and len(extras.due_us) != count:
        raise BadCommand("a stage has one due time per message, or none")
    return Stage(append, extras)


def _check_dedup(section: bytes, count: int) -> None:
    entries, rest = divmod(len(section), DEDUP_ENTRY.size)
    if rest or entries > count * MAX_DEDUP_ENTRIES_PER_MESSAGE:
        raise BadCommand(f"a dedup section of {len(section)} bytes for {count} messages")
    if any(index >= count for index, _, _ in DEDUP_ENTRY.iter_unpack(section)):
        raise BadCommand("a dedup entry for a message that is not in the batch")


assert QUEUE_ID_BYTES == len(QueueId(bytes(16), 0).pack()) == 25
