"""A power cut at any step leaves the old checkpoint or the new one, whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from store_nodes.checkpoint.files import DiskFiles
from store_nodes.checkpoint.format import (
    Checkpoint,
    CheckpointDamaged,
    GroupCheckpoint,
    Rest,
    rest_of,
)
from store_nodes.checkpoint.store import MANIFESTS, CheckpointStore, file_name
from tests.unit.checkpoint.power_loss_files import PowerCut, PowerLossFiles


def checkpoint(n: int) -> Checkpoint:
    groups = tuple(GroupCheckpoint(g, n << 16 | g, 10 * n, b"machine" * n) for g in range(1, 4))
    return Checkpoint(groups, n, 100 * n, b"tail" * n)


def written(count: int) -> PowerLossFiles:
    files = PowerLossFiles()
    store = CheckpointStore(files)
    assert store.load() is None
    for n in range(1, count + 1):
        assert store.write(checkpoint(n)) == n
    return files


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_power_cut_at_every_step(before: int) -> None:
    """The test cuts the power once more while the next checkpoint is written after the restart."""
    cuts = 0
    for step in range(12):
        for seed in range(40):
            luck = random.Random(f"{before}/{step}/{seed}")
            files = written(before)
            files.cut_after = files.operations + step
            finished = write_or_cut(files, before + 1)
            cuts += not finished
            files.restart(luck)
            allowed = {before, before + 1} if not finished else {before + 1}
            found = number_found(files)
            assert found in allowed
            files.cut_after = luck.randint(0, 9)
            finished = write_or_cut(files, found + 1)
            files.restart(luck)
            assert number_found(files) in ({found, found + 1} if not finished else {found + 1})
    assert cuts >= 5 * 40


def write_or_cut(files: PowerLossFiles, number: int) -> bool:
    """Return whether `write` finished; only then the new checkpoint has to be there."""
    store = CheckpointStore(files)
    store.load()
    try:
        store.write(checkpoint(number))
    except PowerCut:
        return False
    return True


def number_found(files: PowerLossFiles) -> int:
    loaded = CheckpointStore(files).load()
    if loaded is None:
        return 0
    assert loaded.checkpoint == checkpoint(loaded.number)
    assert loaded.skipped == ()
    return loaded.number


def test_only_two_checkpoints_are_kept() -> None:
    files = written(5)
    assert files.names() == [file_name(4), file_name(5), *MANIFESTS]


def test_the_log_is_needed_from_the_older_checkpoint_on() -> None:
    files = PowerLossFiles()
    store = CheckpointStore(files)
    assert store.oldest_start is None
    for n, start in ((1, 1), (2, 1), (3, 2)):
        store.write(checkpoint(n))
        assert store.oldest_start == (start, 100 * start)
    again = CheckpointStore(files)
    again.load()
    assert again.oldest_start == (2, 200)


def test_no_checkpoint_needs_a_log_that_may_be_gone() -> None:
    store = CheckpointStore(written(3))
    assert store.load() is not None
    with pytest.raises(AssertionError, match="needs a log that is kept from"):
        store.write(checkpoint(1))
    assert store.write(checkpoint(4)) == 4


@pytest.mark.parametrize("name", [file_name(3), MANIFESTS[1]])
def test_damage_of_the_newest_falls_back_and_says_so(name: str) -> None:
    for bit in range(0, 8 * 60, 7):
        files = written(3)
        files.damage(name, bit)
        store = CheckpointStore(files)
        loaded = store.load()
        assert loaded is not None
        assert (loaded.number, loaded.checkpoint) == (2, checkpoint(2))
        assert name in loaded.skipped[0]
        number = store.write(checkpoint(9))
        again = CheckpointStore(files).load()
        assert again is not None
        assert (again.number, again.checkpoint) == (number, checkpoint(9))


def test_damage_of_both_is_an_error_never_an_empty_start() -> None:
    for names in (MANIFESTS, (file_name(2), file_name(3)), (MANIFESTS[0], file_name(3))):
        files = written(3)
        for name in names:
            files.damage(name, 77)
        with pytest.raises(CheckpointDamaged):
            CheckpointStore(files).load()


def test_a_missing_file_is_damage() -> None:
    files = written(1)
    files.remove(file_name(1))
    with pytest.raises(CheckpointDamaged, match="missing"):
        CheckpointStore(files).load()


def test_a_manifest_in_the_wrong_slot_is_damage() -> None:
    files = written(1)
    files.rename(MANIFESTS[1], MANIFESTS[0])
    with pytest.raises(CheckpointDamaged, match="slot"):
        CheckpointStore(files).load()


def test_resurrected_files_are_ignored_and_removed() -> None:
    files = written(4)
    files.write_synced(file_name(1), b"came back")
    store = CheckpointStore(files)
    loaded = store.load()
    assert loaded is not None
    assert loaded.number == 4
    store.write(checkpoint(5))
    assert file_name(1) not in files.names()


def test_a_failed_write_is_not_swallowed() -> None:
    class FailingFiles(PowerLossFiles):
        def sync_directory(self) -> None:
            raise OSError(5, "EIO")

    with pytest.raises(OSError, match="EIO"):
        CheckpointStore(FailingFiles()).write(checkpoint(1))


def test_on_real_files(tmp_path: Path) -> None:
    store = CheckpointStore(DiskFiles(tmp_path))
    assert store.load() is None
    for n in (1, 2, 3):
        store.write(checkpoint(n))
    loaded = CheckpointStore(DiskFiles(tmp_path)).load()
    assert loaded is not None
    assert loaded.checkpoint == checkpoint(3)
    assert sorted(p.name for p in tmp_path.iterdir()) == [file_name(2), file_name(3), *MANIFESTS]


def test_a_checkpoint_written_group_by_group_is_read_whole(tmp_path: Path) -> None:
    """The store asks for the rest after the last group, and counts starts as usual."""
    asked: list[str] = []
    wanted = checkpoint(5)

    def groups() -> Iterator[GroupCheckpoint]:
        for group in wanted.groups:
            asked.append(f"group {group.group}")
            yield group

    def rest() -> Rest:
        asked.append("rest")
        return rest_of(wanted)

    store = CheckpointStore(DiskFiles(tmp_path))
    assert store.write_groups(len(wanted.groups), groups(), rest) == 1
    assert asked == ["group 1", "group 2", "group 3", "rest"]
    assert store.oldest_start == (wanted.wal_segment, wanted.wal_offset)
    loaded = CheckpointStore(DiskFiles(tmp_path)).load()
    assert loaded is not None
    assert loaded.checkpoint == wanted
