"""Heads of frames: their numbers and fields stay what they are, and errors travel whole."""

from __future__ import annotations

import typing

import msgspec
import pytest

from store_nodes import errors, wire
from store_nodes.transport import failures


def test_type_numbers_are_frozen():
    numbers = {kind.__struct_config__.tag: kind.__name__ for kind in typing.get_args(wire.Head)}
    assert len(numbers) == len(typing.get_args(wire.Head))
    assert numbers == {
        1: "Hello", 2: "Challenge", 3: "Proof", 4: "Welcome", 5: "Goodbye", 6: "Ping", 7: "Pong",
        8: "Leaders", 9: "Peer",
        16: "Command", 17: "Fetch", 18: "Offsets", 19: "OffsetAt", 20: "Queues", 21: "Status",
        22: "Watch", 23: "WatchEdit", 24: "Cancel", 25: "Staged", 26: "Locate",
        27: "Snapshot", 28: "FetchStaged",
        64: "Accepted", 65: "Appended", 66: "Finished", 67: "Released", 68: "Fetched",
        69: "OffsetsAre", 70: "OffsetIs", 71: "QueuesAre", 72: "StatusIs", 73: "Watched",
        74: "Failed", 75: "StagedAre", 76: "LocationIs",
        77: "SnapshotPart", 78: "StagedBatches",
    }  # fmt: skip


HELLO_1 = "98010101c4037569640203c403696e63c4046e6e6e6e"
HELLO_2 = "9b010201c4037569640203c403696e63c4046e6e6e6e" + "05cf0000000100000002c40172"


def test_a_frame_of_a_known_hello_is_frozen():
    hello = wire.Hello(2, 1, b"uid", 2, 3, b"inc", b"n" * 4, 5, 1 << 32 | 2, b"r")
    assert msgspec.msgpack.encode(hello).hex() == HELLO_2
    assert msgspec.msgpack.decode(bytes.fromhex(HELLO_2), type=wire.Hello) == hello


def test_a_hello_of_version_1_is_read():
    hello = msgspec.msgpack.decode(bytes.fromhex(HELLO_1), type=wire.Hello)
    assert hello == wire.Hello(1, 1, b"uid", 2, 3, b"inc", b"n" * 4, 0, 0, b"")


def test_a_frame_of_a_known_challenge_is_frozen():
    challenge = wire.Challenge(2, b"uid", 3, b"inc", b"n", b"p", 5, 6, b"r")
    golden = "9a0202c40375696403c403696e63c4016ec401700506c40172"
    assert msgspec.msgpack.encode(challenge).hex() == golden


GOLDEN: list[tuple[wire.Head, str]] = [
    (
        wire.Welcome(
            leaders=(wire.LeaderView(group=1, leader=2, ballot=3, log_time_us=4),),
            nodes=(wire.NodeView(node=5, address="h:6", labels={"zone": "a"}),),
        ),
        "9304919401020304919305a3683a3681a47a6f6e65a161",
    ),
    (
        wire.Leaders(leaders=(), nodes=(wire.NodeView(node=5, address="h:6", labels={}),)),
        "930890919305a3683a3680",
    ),
    (
        wire.OffsetAt(id=1, group=2, queue=b"q", time_us=0, last_bytes=1000),
        "96130102c4017100cd03e8",
    ),
    (
        wire.Staged(id=1, group=2, queue=b"q", after=-1, limit=10, changes_after=None),
        "97190102c40171ff0ac0",
    ),
    (
        wire.Staged(id=1, group=2, queue=b"q", after=-1, limit=10, changes_after=5),
        "97190102c40171ff0a05",
    ),
    (wire.Locate(id=1, group=2, queue=b"q", stage_number=3), "951a0102c4017103"),
    (wire.Snapshot(id=1, group=2, number=3, offset=4, least=5), "971b0102030405c2"),
    (
        wire.FetchStaged(id=1, group=2, queue=b"q", stage_number=3, max_bytes=4),
        "961c0102c401710304",
    ),
    (wire.Released(id=1, offsets=(5, None, -1), log_time_us=6), "9443019305c0ff06"),
    (
        wire.Watched(
            id=1,
            queues=(
                wire.QueueOffsets(
                    queue=b"q",
                    first=1,
                    end=2,
                    stage_end=3,
                    sealed=True,
                    stored_bytes=4,
                    stage_changes=5,
                ),
            ),
        ),
        "9349019197c40171010203c30405",
    ),
    (
        wire.QueuesAre(
            id=1,
            queues=(
                wire.QueueInfo(
                    queue=b"q",
                    base=1,
                    first=2,
                    end=3,
                    sealed=True,
                    meta=b"m",
                    successors=((4, b"s"),),
                    stage_end=5,
                    stored_bytes=6,
                    staged=7,
                ),
            ),
        ),
        "934701919ac40171010203c3c4016d919204c40173050607",
    ),
    (
        wire.StagedAre(
            id=1,
            staged=(wire.StagedInfo(stage_number=2, due_us=None, log_time_us=3, tag=b"t"),),
            changes=4,
            overrun=True,
        ),
        "954b01919402c003c4017404c3",
    ),
    (wire.LocationIs(id=1, state="offset", offset=2), "944c01a66f666673657402"),
    (wire.SnapshotPart(id=1, number=2, total_bytes=3, applied=4, oldest=5), "964d0102030405"),
    (
        wire.StagedBatches(
            id=1, entries=(wire.StagedHead(base_stage=2, count=3, log_time_us=4, batch_bytes=5),)
        ),
        "934e01919402030405",
    ),
]


@pytest.mark.parametrize(("head", "golden"), GOLDEN, ids=lambda each: type(each).__name__)
def test_frames_of_staging_and_snapshots_are_frozen(head, golden):
    assert msgspec.msgpack.encode(head).hex() == golden
    assert msgspec.msgpack.decode(bytes.fromhex(golden), type=wire.Head) == head


def test_what_version_1_said_of_queues_is_read():
    """Fields were added at the end: stored bytes, changes, nodes."""
    for head, fields in (
        (wire.QueueOffsets(b"q", 1, 2, 3, True), [b"q", 1, 2, 3, True]),
        (wire.QueueInfo(b"q", 1, 2, 3, False, b"m"), [b"q", 1, 2, 3, False, b"m"]),
        (wire.StagedAre(1, ()), [75, 1, []]),
        (wire.Welcome(), [4, []]),
    ):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=type(head)) == head


def test_fields_of_a_later_version_are_ignored():
    later = msgspec.msgpack.encode([6, 77, 5, "new field"])
    assert msgspec.msgpack.decode(later, type=wire.Ping) == wire.Ping(77, 5)


ERRORS = [
    errors.NotDone("n"),
    errors.NotLeader(2),
    errors.NotLeader(),
    errors.Unavailable("u"),
    errors.Overloaded("o"),
    errors.DiskFull("d"),
    errors.TooLarge("t"),
    errors.DeadlinePassed("d"),
    errors.SequenceGap(4),
    errors.QueueNotFound("q"),
    errors.QueueExists("q"),
    errors.QueueSealed(7, ((1, b"a"), (2, b"b"))),
    errors.QueueTruncated(9),
    errors.DedupKnown(
        {
            1: errors.Known(5, False, True, b"q", 7),
            3: errors.Known(6, True, False, b"q", 0),
        }
    ),
    errors.Conflict(4),
    errors.NotAllowed("a"),
    errors.NotSupported("n"),
    errors.OutcomeUnknown("o"),
]


def test_every_error_travels_with_its_fields():
    assert {type(e) for e in ERRORS} == {
        errors.NotDone, errors.OutcomeUnknown, *errors.NotDone.__subclasses__()
    }  # fmt: skip
    for error in ERRORS:
        raw = msgspec.msgpack.encode(failures.encode(1, error, decided=True))
        back = failures.decode(msgspec.msgpack.decode(raw, type=wire.Failed))
        assert type(back) is type(error)
        assert vars(back) == vars(error)
        assert str(back) == str(error)


def test_an_error_of_a_later_version_is_unknown():
    assert isinstance(failures.decode(wire.Failed(1, 200, "?", True)), errors.OutcomeUnknown)
