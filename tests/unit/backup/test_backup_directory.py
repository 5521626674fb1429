"""The directory of backups: whole ones, damaged ones, and what goes with old ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gateway.backup.backup_directory import (
    MANIFEST,
    BackupDirectory,
    BackupDirectoryError,
    Manifest,
    StoredPack,
)
from metadata.postgres.dump import Dump


@pytest.fixture
def backups(tmp_path: Path) -> BackupDirectory:
    return BackupDirectory(tmp_path / "backups")


def backup(backups: BackupDirectory, number: int, *older: StoredPack) -> tuple[str, StoredPack]:
    """Finish a backup that has a pack of its own and the given older ones."""
    draft = backups.draft(float(number))
    stored = []
    for part in ("pack-1", "index-1", "group-0"):
        file = draft.file(part)
        file.write(b"%d of " % number + part.encode())
        file.close()
        stored.append(file.stored)
    pack = StoredPack(stored[0], stored[1])
    draft.finish(
        Manifest(
            release="0",
            began=float(number),
            recovery_point=float(number),
            finished=float(number),
            cluster_uid="",
            store_era=0,
            store_groups=1,
            messages=0,
            new_bytes=0,
            database=Dump("0001", 0, (), {}),
            tables={},
            machines={0: stored[2]},
            packs=(*older, pack),
        )
    )
    return draft.name, pack


def test_a_backup_is_one_once_its_manifest_is_there(backups: BackupDirectory) -> None:
    with backups.writing():
        backups.draft(1.0).file("pack-1").close()
        assert backups.names() == []
        with pytest.raises(BackupDirectoryError, match="no backup"):
            backups.manifest()
        name, _ = backup(backups, 2)
        assert backups.names() == [name]
        assert [entry.name for entry in backups.path.glob("*.partial")] == []
    assert backups.manifest()[0] == backups.manifest(name)[0] == name


def test_one_at_a_time(backups: BackupDirectory) -> None:
    with (
        backups.writing(),
        pytest.raises(BackupDirectoryError, match="another"),
        BackupDirectory(backups.path).writing(),
    ):
        pass


@pytest.mark.parametrize("what", ["flipped", "short", "gone"])
def test_a_file_that_is_not_as_it_was_written_is_found(backups: BackupDirectory, what: str) -> None:
    with backups.writing():
        backup(backups, 1)
    _, manifest = backups.manifest()
    backups.check(manifest.files())
    path = backups.path / manifest.packs[0].batches.path
    raw = path.read_bytes()
    if what == "gone":
        path.unlink()
    else:
        path.write_bytes(raw[:-1] if what == "short" else raw[:-1] + b"x")
    with pytest.raises(BackupDirectoryError, match="pack-1"):
        backups.check(manifest.files())


def test_a_manifest_that_was_changed_is_found(backups: BackupDirectory) -> None:
    with backups.writing():
        name, _ = backup(backups, 1)
    path = backups.path / name / MANIFEST
    changed = msgspec.json.decode(path.read_bytes()) | {"store_era": 3}
    path.write_bytes(msgspec.json.encode(changed))
    with pytest.raises(BackupDirectoryError, match="damaged"):
        backups.manifest(name)


def test_old_ones_go_and_what_later_ones_need_of_them_stays(backups: BackupDirectory) -> None:
    with backups.writing():
        _, first = backup(backups, 1)
        _, second = backup(backups, 2, first)
        third, _ = backup(backups, 3, second)
        assert len(backups.keep(2)) == 1
        backups.check(backups.manifest()[1].files())
        backups.check(backups.manifest(backups.names()[0])[1].files())
        assert (backups.path / first.batches.path).exists(), "the second one needs it"
        assert len(backups.keep(1)) == 1
        assert backups.names() == [third]
        backups.check(backups.manifest()[1].files())
        assert not (backups.path / first.batches.path).parent.exists()
        held = [path.name for path in (backups.path / second.batches.path).parent.iterdir()]
        assert sorted(held) == ["index-1", "pack-1"]
