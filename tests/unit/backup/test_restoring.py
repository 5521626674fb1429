"""Directories of new nodes, filled with a copy, and what a start finds in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from peering.shared_secret import SharedSecret
from store_nodes.backup.packs import PackDamaged
from store_nodes.backup.restoring import NOT_FINISHED, Copy, NotRestorable, restore_node
from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.node.boot import BootRecord
from store_nodes.node.start import Started, load
from store_nodes.queue_id import QueueId
from store_nodes.settings import StoreNodeSettings
from tests.unit.backup.backup_support import OLD_UID, TOPIC, FakeStore, copy, nothing

A, B = QueueId(TOPIC, 0), QueueId(TOPIC, 1)
MANY = 40
SEGMENT_BYTES = 64 * 1024


def raised(counters: Mapping[str, int]) -> Mapping[str, int]:
    return {**counters, "era": 16}


def settings(directory: Path, **changed: object) -> StoreNodeSettings:
    given = {
        "node_id": 2,
        "data_dir": directory,
        "listen": ("127.0.0.1", 1),
        "peers": {node: ("127.0.0.1", node) for node in (1, 2, 3)},
        "cluster_uid": b"n" * 16,
        "secret": SharedSecret(b"s" * 16),
        "groups": 2,
        "segment_bytes": SEGMENT_BYTES,
    }
    return StoreNodeSettings(**(given | changed))  # type: ignore[arg-type]


@pytest.fixture
async def copied(tmp_path: Path) -> Copy:
    """Return a copy with more than a segment of the log, and with kept and delayed
    messages, of which one is released.
    """
    store = FakeStore()
    store.create(0, A)
    store.create(1, B)
    for number in range(MANY):
        store.append(0, A, f"{number:04}" * 1000)
    store.truncate(0, A, 10, 3)
    store.stage(1, B, "released", "staged")
    store.release(1, B, 0)
    return await copy(store, tmp_path / "copy")


def opened(found: StoreNodeSettings) -> Started:
    started = load(found)
    started.wal.close()
    return started


def test_a_start_finds_all_of_the_copy_and_no_votes(copied: Copy, tmp_path: Path) -> None:
    restore_node(settings(tmp_path / "node"), copied, raised, nothing)
    started = load(settings(tmp_path / "node"))
    try:
        assert started.ever_ran
        assert started.damage is None
        machine = started.found[0].machine
        assert machine.offsets(A.pack())[:2] == (10, MANY)
        assert machine.kept(A.pack()) == (3,)
        assert machine.membership.voters == (1, 2, 3)
        assert machine.counters["era"] == 16
        assert started.batches.missing(A.pack(), 3, 4) == []
        assert started.batches.missing(A.pack(), 10, MANY) == []
        assert started.batches.missing(A.pack(), 0, 3) == [(0, 3)]
        assert started.batches.missing(B.pack(), 0, 1) == []
        assert started.found[1].machine.locate(B.pack(), 1) == ("staged", None)
        for group, found in started.found.items():
            assert (found.promised, found.accepted) == (0, {})
            assert found.chosen == found.machine.applied == copied.restored[group].applied
    finally:
        started.wal.close()


def test_every_node_begins_with_the_same(copied: Copy, tmp_path: Path) -> None:
    digests = set()
    for node in (1, 2, 3):
        found = settings(tmp_path / f"node-{node}", node_id=node)
        restore_node(found, copied, raised, nothing)
        started = opened(found)
        digests.add(tuple(one.machine.state_digest() for one in started.found.values()))
    assert len(digests) == 1


def test_no_offset_is_given_twice(copied: Copy, tmp_path: Path) -> None:
    """A queue that follows skips the offsets that the old cluster gave after the copy."""
    found = settings(tmp_path / "node")
    restore_node(found, copied, raised, nothing, skip_offsets=1000)
    machine = opened(found).found[0].machine
    after = A._replace(generation=1).pack()
    old, new = machine.offsets(A.pack()), machine.offsets(after)
    assert (old.end, old.sealed, old.successors) == (MANY, True, ((0, after),))
    assert (new.first, new.end, new.sealed) == (MANY + 1000, MANY + 1000, False)
    (info,) = (one for one in machine.queues() if one.queue == after)
    assert info.base == MANY, "without a gap for who follows the chain"


def test_nodes_that_were_given_something_else_have_another_digest(
    copied: Copy, tmp_path: Path
) -> None:
    digests = []
    for node, skip_offsets in ((1, 1000), (2, 1000), (3, 2000)):
        found = settings(tmp_path / f"node-{node}", node_id=node)
        restore_node(found, copied, raised, nothing, skip_offsets=skip_offsets)
        digests.append(opened(found).found[0].machine.digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_restore_that_was_cut_is_refused_and_begun_anew(
    copied: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings(tmp_path / "node")
    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "write", _fail)
        with pytest.raises(OSError, match="cut"):
            restore_node(found, copied, raised, nothing)
    assert BootRecord(found.data_dir).refusal == NOT_FINISHED
    restore_node(found, copied, raised, nothing)
    assert BootRecord(found.data_dir).refusal is None
    assert opened(found).found[0].machine.applied == copied.restored[0].applied


def _fail(*_: object) -> None:
    raise OSError("cut")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"cluster_uid": OLD_UID}, "new uid"),
        ({"groups": 3}, "PACKETBOAT_STORE_GROUPS"),
        ({"join": True}, "first nodes"),
    ],
)
def test_what_must_not_be_is_refused_and_changes_nothing(
    copied: Copy, tmp_path: Path, changed: dict[str, object], reason: str
) -> None:
    with pytest.raises(NotRestorable, match=reason):
        restore_node(settings(tmp_path / "node", **changed), copied, raised, nothing)
    assert not (tmp_path / "node").exists()


def test_a_directory_that_is_in_use_is_left_alone(copied: Copy, tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "boot").write_bytes(b"")
    with pytest.raises(NotRestorable, match="not empty"):
        restore_node(settings(tmp_path / "node"), copied, raised, nothing)
    assert [entry.name for entry in (tmp_path / "node").iterdir()] == ["boot"]


def test_a_damaged_batch_ends_a_restore(copied: Copy, tmp_path: Path) -> None:
    (pack,) = copied.packs
    raw = bytearray(pack.batches.read_bytes())
    raw[len(raw) // 2] ^= 1
    pack.batches.write_bytes(raw)
    with pytest.raises(PackDamaged):
        restore_node(settings(tmp_path / "node"), copied, raised, nothing)
    assert BootRecord(tmp_path / "node").refusal == NOT_FINISHED
