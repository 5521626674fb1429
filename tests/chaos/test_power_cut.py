"""The plug is really pulled: what was synced is there afterwards, what was not is gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.power_cut import Ext4Image, unavailable


@pytest.fixture
def image(tmp_path: Path) -> Ext4Image:
    reason = unavailable()
    if reason is not None:
        pytest.skip(f"no power cuts here: {reason}")
    return Ext4Image(tmp_path, size_mb=32)


def test_unsynced_data_and_names_are_lost_and_synced_ones_kept(image: Ext4Image) -> None:
    try:
        image.make()
        kept = os.open(image.mount_point / "kept", os.O_CREAT | os.O_WRONLY)
        os.write(kept, b"synced")
        os.fsync(kept)
        directory = os.open(image.mount_point, os.O_RDONLY)
        os.fsync(directory)
        os.write(kept, b" and not")
        lost = os.open(image.mount_point / "lost", os.O_CREAT | os.O_WRONLY)
        os.write(lost, b"never synced")
        image.cut()
        with pytest.raises(OSError, match="error"):
            os.fsync(kept)
        for descriptor in (kept, lost, directory):
            os.close(descriptor)
        image.remount()
        assert (image.mount_point / "kept").read_bytes() == b"synced"
        assert not (image.mount_point / "lost").exists()
    finally:
        image.remove()
