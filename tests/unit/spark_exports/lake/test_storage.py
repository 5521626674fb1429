"""Local files are durable once closed; listing and deleting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_exports.lake.storage import (
    LakeFileIO,
    delete_files,
    list_files,
    storage_properties,
    write_whole,
)


def test_a_closed_file_is_on_disk_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda number: (synced.append(os.readlink(f"/proc/self/fd/{number}")), real(number)),
    )
    path = tmp_path / "new" / "er" / "file"
    with LakeFileIO().new_output(str(path)).create() as stream:
        stream.write(b"content")
        assert str(path) not in synced
    assert path.read_bytes() == b"content"
    assert synced == [str(tmp_path), str(tmp_path / "new"), str(path), str(path.parent)]


def test_a_file_is_not_written_over(tmp_path: Path) -> None:
    write_whole(LakeFileIO(), str(tmp_path / "file"), b"first")
    with pytest.raises(FileExistsError):
        LakeFileIO().new_output(str(tmp_path / "file")).create()
    write_whole(LakeFileIO(), str(tmp_path / "file"), b"second")
    assert (tmp_path / "file").read_bytes() == b"second"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_files_are_listed_as_they_are_named(tmp_path: Path, prefix: str) -> None:
    directory = f"{prefix}{tmp_path}/table"
    assert list(list_files(LakeFileIO(), directory)) == []
    names = {f"{directory}/a/b/1", f"{directory}/a/2"}
    for name in names:
        write_whole(LakeFileIO(), name, b"123")
    found = list(list_files(LakeFileIO(), directory))
    assert {file.location for file in found} == names
    assert {file.size_bytes for file in found} == {3}
    assert all(file.modified_s > 1_700_000_000 for file in found)

    assert delete_files(LakeFileIO(), [f"{directory}/a/b/1", f"{directory}/gone"]) == 1
    assert {file.location for file in list_files(LakeFileIO(), directory)} == {f"{directory}/a/2"}
    assert not (tmp_path / "table/a/b").exists()


def test_workers_get_no_passwords_of_catalogs() -> None:
    assert storage_properties(
        {"uri": "postgresql://u:secret@h/db", "token": "t", "s3.endpoint": "http://s3"}
    ) == {"s3.endpoint": "http://s3"}
