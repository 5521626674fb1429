"""Commands and values are in logs and on wires: their bytes are frozen."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store_nodes import commands as c
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import MAX_BATCH_MESSAGES

Q = bytes(range(25))
Q_HEX = Q.hex()
SESSION = bytes(range(16))

GOLDEN: list[tuple[c.ControlCommand, str]] = [
    (c.Create(Q, 5, b"meta"), f"010000002300000093c419{Q_HEX}05c4046d657461"),
    (c.Seal(Q, ((2, Q),)), f"020000003a00000092c419{Q_HEX}919202c419{Q_HEX}"),
    (c.Delete(Q), f"030000001c00000091c419{Q_HEX}"),
    (c.Release(Q, (1, 2)), f"060000001f00000092c419{Q_HEX}920102"),
    (c.Reschedule(Q, (1,), (9,)), f"070000002000000093c419{Q_HEX}91019109"),
    (c.Discard(Q, (3,)), f"080000001e00000092c419{Q_HEX}9103"),
    (c.Truncate(Q, 300, (7, 9)), f"090000002200000093c419{Q_HEX}cd012c920709"),
    (c.Checkpoint("why"), "0a0000000500000091a3776879"),
    (
        c.Reconfigure(1, 4, "voter", "h:1", {"zone": "a"}),
        "0b00000015000000950104a5766f746572a3683a3181a47a6f6e65a161",
    ),
    (c.Transfer(2), "0c000000020000009102"),
    (c.CompareAndSet("era", 0, 1), "0d0000000700000093a36572610001"),
]
APPEND = bytes.fromhex(
    f"040000006a000000{Q_HEX}{SESSION.hex()}0200000000000000030000000000000004000000"
    f"1c0000000000000005000000" + f"01000000{SESSION.hex()}0700000000000000" + b"batch".hex()
)
STAGE = bytes.fromhex(
    f"0500000059000000{Q_HEX}{SESSION.hex()}0200000000000000030000000000000004000000"
    f"000000000b00000005000000" + "929405060708c403746167" + b"batch".hex()
)
VALUE = bytes.fromhex(f"010101000000000000010000030000001c00000091c419{Q_HEX}")


@pytest.mark.parametrize(("command", "raw"), GOLDEN, ids=lambda x: type(x).__name__)
def test_golden_control_commands(command: c.ControlCommand, raw: str) -> None:
    assert c.encode(command).hex() == raw
    kind = c.check(bytes.fromhex(raw))
    value = c.encode_value([bytes.fromhex(raw)], 1)
    assert c.decode_value(value) == [(kind, command)]


def test_every_kind_has_a_golden_form() -> None:
    named = {bytes.fromhex(raw)[0] for _, raw in GOLDEN} | {APPEND[0], STAGE[0]}
    assert named == set(c.CommandKind)


def test_numbers_of_kinds_are_frozen() -> None:
    assert [(k.name, k.value) for k in c.CommandKind] == [
        ("CREATE", 1),
        ("SEAL", 2),
        ("DELETE", 3),
        ("APPEND", 4),
        ("STAGE", 5),
        ("RELEASE", 6),
        ("RESCHEDULE", 7),
        ("DISCARD", 8),
        ("TRUNCATE", 9),
        ("CHECKPOINT", 10),
        ("RECONFIGURE", 11),
        ("TRANSFER", 12),
        ("COMPARE_AND_SET", 13),
    ]
    assert [(k.name, k.value) for k in c.ValueKind] == [
        ("NOOP", 0),
        ("COMMANDS", 1),
        ("MEMBERSHIP", 2),
    ]


def test_golden_append() -> None:
    dedup = c.DEDUP_ENTRY.pack(1, SESSION, 7)
    assert c.encode_append(Q, SESSION, 2, 3, 4, b"batch", dedup) == APPEND
    value = c.encode_value([APPEND], 9)
    [(kind, append)] = c.decode_value(value)
    assert kind is c.CommandKind.APPEND
    assert isinstance(append, c.Append)
    assert append[:6] == (Q, SESSION, 2, 3, 4, dedup)
    assert value[append.batch_at : append.batch_at + append.batch_bytes] == b"batch"


def test_golden_stage() -> None:
    extras = c.StageExtras((5, 6, 7, 8), b"tag")
    assert c.encode_append(Q, SESSION, 2, 3, 4, b"batch", extras=extras) == STAGE
    value = c.encode_value([STAGE], 9)
    [(kind, stage)] = c.decode_value(value)
    assert kind is c.CommandKind.STAGE
    assert isinstance(stage, c.Stage)
    assert stage.extras == extras
    at = stage.append.batch_at
    assert value[at : at + stage.append.batch_bytes] == b"batch"


def test_golden_values() -> None:
    assert c.encode_noop(77).hex() == "010000004d00000000000000"
    assert c.value_head(c.encode_noop(77)) == (c.ValueKind.NOOP, 0, 77)
    assert c.decode_value(c.encode_noop(77)) == []
    assert c.encode_value([c.encode(c.Delete(Q))], 2**40) == VALUE
    assert c.value_head(VALUE) == (c.ValueKind.COMMANDS, 1, 2**40)


def test_golden_queue_id() -> None:
    queue = QueueId(bytes(range(16)), 0x10111213, 0x14, 0x15161718)
    assert queue.pack() == Q
    assert QueueId.unpack(Q) == queue
    assert str(queue) == "000102030405060708090a0b0c0d0e0f/269554195.20.353769240"


@given(st.lists(st.tuples(st.integers(1, 9), st.binary(max_size=50)), min_size=1, max_size=9))
def test_many_commands_in_a_value(appends: list[tuple[int, bytes]]) -> None:
    raws = [c.encode_append(Q, SESSION, n, 0, n, batch) for n, batch in appends]
    value = c.encode_value(raws, 5)
    for (n, batch), (_, append) in zip(appends, c.decode_value(value), strict=True):
        assert isinstance(append, c.Append)
        assert (append.seq, append.messages) == (n, n)
        assert value[append.batch_at : append.batch_at + append.batch_bytes] == batch


WHOLE = [APPEND, STAGE, *(bytes.fromhex(raw) for _, raw in GOLDEN)]


@pytest.mark.parametrize("raw", WHOLE, ids=lambda raw: c.CommandKind(raw[0]).name)
def test_check_refuses_every_cut(raw: bytes) -> None:
    for length in range(len(raw)):
        with pytest.raises(c.BadCommand):
            c.check(raw[:length])
    with pytest.raises(c.BadCommand):
        c.check(raw + b"\0")


@pytest.mark.parametrize("raw", WHOLE, ids=lambda raw: c.CommandKind(raw[0]).name)
def test_check_never_fails_otherwise(raw: bytes) -> None:
    """The answer to any bytes of a client is a kind or BadCommand."""
    for at in range(len(raw)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(raw)
            damaged[at] ^= flip
            with contextlib.suppress(c.BadCommand):
                c.check(bytes(damaged))


@pytest.mark.parametrize("raw", WHOLE, ids=lambda raw: c.CommandKind(raw[0]).name)
def test_a_cut_value_is_refused(raw: bytes) -> None:
    value = c.encode_value([raw, raw], 1)
    for length in range(len(value)):
        with pytest.raises(c.BadCommand):
            c.decode_value(value[:length])


def test_queue_ids_have_their_length() -> None:
    for command in (c.Create(Q[:-1], 0, b""), c.Delete(Q + b"x"), c.Seal(Q, ((1, b""),))):
        with pytest.raises(c.BadCommand):
            c.check(c.encode(command))


def test_limits_of_an_append() -> None:
    for messages in (0, MAX_BATCH_MESSAGES + 1):
        with pytest.raises(c.BadCommand):
            c.check(c.encode_append(Q, SESSION, 1, 0, messages, b"x"))
    c.check(c.encode_append(Q, SESSION, 1, 0, MAX_BATCH_MESSAGES, b"x"))


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(c.BadCommand):
        c.decode_value(b"\x02" + VALUE[1:])
    with pytest.raises(c.BadCommand):
        c.decode_value(VALUE + b"\0")
    with pytest.raises(c.BadCommand):
        c.check(b"\x0e" + APPEND[1:])


def test_limits_of_a_stage() -> None:
    def stage(due_us: tuple[int, ...] | None, tag: bytes = b"") -> bytes:
        return c.encode_append(Q, SESSION, 1, 0, 2, b"x", extras=c.StageExtras(due_us, tag))

    for good in (stage(None), stage((0, 2**63 - 1), b"t" * c.MAX_TAG_BYTES)):
        assert c.check(good) is c.CommandKind.STAGE
    for bad in (stage((1,)), stage((1, 2, 3)), stage(None, b"t" * 65), stage((1, 2**63))):
        with pytest.raises(c.BadCommand):
            c.check(bad)


def test_limits_of_a_dedup_section() -> None:
    def append(section: bytes) -> bytes:
        return c.encode_append(Q, SESSION, 1, 0, 2, b"x", section)

    entry = c.DEDUP_ENTRY.pack(1, SESSION, 7)
    c.check(append(entry * 4))
    for bad in (entry[:-1], entry + b"x", c.DEDUP_ENTRY.pack(2, SESSION, 7), entry * 5):
        with pytest.raises(c.BadCommand):
            c.check(append(bad))


def test_the_window_of_a_dedup_section() -> None:
    entry = c.DEDUP_ENTRY.pack(0, SESSION, 7)
    for asked, held in ((600, 600), (1, 2), (7, 8), (3600, 3600), (131_070, 131_070)):
        raw = c.encode_append(Q, SESSION, 1, 0, 1, b"x", entry, dedup_window_s=asked)
        command = c.parse(raw)
        assert isinstance(command, c.Append)
        assert command.dedup_window_us == held * 1_000_000


def test_limits_of_staged_numbers() -> None:
    many = tuple(range(c.MAX_STAGE_NUMBERS))
    c.check(c.encode(c.Release(Q, many)))
    for bad in (
        c.Release(Q, (*many, 1)),
        c.Discard(Q, (*many, 1)),
        c.Release(Q, (-1,)),
        c.Release(Q, (2**63,)),
        c.Reschedule(Q, (1, 2), (1,)),
        c.Reschedule(Q, (1,), (-1,)),
        c.Reschedule(Q, (1,), (2**63,)),
        c.Transfer(-1),
        c.Transfer(1 << 16),
        c.CompareAndSet("n", 0, -1),
    ):
        with pytest.raises(c.BadCommand):
            c.check(c.encode(bad))


def test_a_membership_value() -> None:
    step = c.Reconfigure(1, 4, "learner", "h:1", {})
    value = c.encode_membership(step, 7)
    assert c.is_membership(value)
    assert c.value_head(value) == (c.ValueKind.MEMBERSHIP, 1, 7)
    assert c.decode_value(value) == [(c.CommandKind.RECONFIGURE, step)]
    assert not c.is_membership(c.encode_noop(7))
    assert not c.is_membership(c.encode_value([c.encode(step)], 7))
