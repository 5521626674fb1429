"""The directory of backups: whole ones, damaged ones, and what goes with old ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gateway.backup.vault import MANIFEST, Manifest, StoredPack, Vault, VaultError
from metadata.postgres.dump import Dump


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "vault")


def backup(vault: Vault, number: int, *older: StoredPack) -> tuple[str, StoredPack]:
    """Finish a backup that has a pack of its own and the given older ones."""
    draft = vault.draft(float(number))
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


def test_a_backup_is_one_once_its_manifest_is_there(vault: Vault) -> None:
    with vault.writing():
        vault.draft(1.0).file("pack-1").close()
        assert vault.names() == []
        with pytest.raises(VaultError, match="no backup"):
            vault.manifest()
        name, _ = backup(vault, 2)
        assert vault.names() == [name]
        assert [entry.name for entry in vault.path.glob("*.partial")] == []
    assert vault.manifest()[0] == vault.manifest(name)[0] == name


def test_one_at_a_time(vault: Vault) -> None:
    with vault.writing(), pytest.raises(VaultError, match="another"), Vault(vault.path).writing():
        pass


@pytest.mark.parametrize("what", ["flipped", "short", "gone"])
def test_a_file_that_is_not_as_it_was_written_is_found(vault: Vault, what: str) -> None:
    with vault.writing():
        backup(vault, 1)
    _, manifest = vault.manifest()
    vault.check(manifest.files())
    path = vault.path / manifest.packs[0].batches.path
    raw = path.read_bytes()
    if what == "gone":
        path.unlink()
    else:
        path.write_bytes(raw[:-1] if what == "short" else raw[:-1] + b"x")
    with pytest.raises(VaultError, match="pack-1"):
        vault.check(manifest.files())


def test_a_manifest_that_was_changed_is_found(vault: Vault) -> None:
    with vault.writing():
        name, _ = backup(vault, 1)
    path = vault.path / name / MANIFEST
    changed = msgspec.json.decode(path.read_bytes()) | {"store_era": 3}
    path.write_bytes(msgspec.json.encode(changed))
    with pytest.raises(VaultError, match="damaged"):
        vault.manifest(name)


def test_old_ones_go_and_what_later_ones_need_of_them_stays(vault: Vault) -> None:
    with vault.writing():
        _, first = backup(vault, 1)
        _, second = backup(vault, 2, first)
        third, _ = backup(vault, 3, second)
        assert len(vault.keep(2)) == 1
        vault.check(vault.manifest()[1].files())
        vault.check(vault.manifest(vault.names()[0])[1].files())
        assert (vault.path / first.batches.path).exists(), "the second one needs it"
        assert len(vault.keep(1)) == 1
        assert vault.names() == [third]
        vault.check(vault.manifest()[1].files())
        assert not (vault.path / first.batches.path).parent.exists()
        held = [path.name for path in (vault.path / second.batches.path).parent.iterdir()]
        assert sorted(held) == ["index-1", "pack-1"]
