"""Real power cuts under load: what was acknowledged is there, whole and in order."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.power_cut import Ext4Image, freeze, unavailable
from tests.chaos.wal_writer import FATAL_EXIT, open_log, payload_of

CUTS = int(os.environ.get("PACKETBOAT_WAL_CUTS", "6"))
ROOT = Path(__file__).parents[2]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Ext4Image]:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    with Ext4Image(tmp_path) as image:
        yield image


def start_writer(directory: Path, seed: int) -> subprocess.Popen[bytes]:
    """Start a process that appends as fast as it can; it has recovered when this returns."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.wal_writer", str(directory), str(seed)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writer.stdout is not None
    head = writer.stdout.readline()
    assert head.startswith(b"found "), writer.communicate()
    return writer


def run_until_cut(disk: Ext4Image, directory: Path, seed: int, run_s: float) -> list[int]:
    """Return the instances acknowledged by a writer until its machine lost power."""
    with start_writer(directory, seed) as writer:
        time.sleep(run_s)
        freeze(writer.pid)
        disk.cut()
        writer.kill()
        acknowledged, errors = writer.communicate(timeout=30)
    assert errors == b""
    return [int(line) for line in acknowledged.split()]


def check_log(directory: Path, acknowledged: int) -> tuple[int, str]:
    """Return how many records the log holds, and the state it was found in."""
    log, found, state = open_log(directory)
    log.close()
    assert state != "damaged"
    assert [record.instance for record in found] == list(range(len(found)))
    assert all(record.payload == payload_of(record.instance) for record in found)
    assert len(found) > acknowledged, "an acknowledged record is missing"
    return len(found), state


def test_no_acknowledged_record_is_lost(disk: Ext4Image) -> None:
    seed = int(os.environ.get("PACKETBOAT_SEED", "1"))
    luck = random.Random(seed)
    newest, states = -1, []
    directory = disk.mount_point / "wal"
    for cut in range(CUTS):
        acknowledged = run_until_cut(disk, directory, seed + cut, luck.uniform(0.05, 0.4))
        assert acknowledged == sorted(acknowledged)
        disk.remount()
        held, state = check_log(directory, max([newest, *acknowledged]))
        states.append(state)
        newest = held - 1
    print(f"seed {seed}: {newest + 1} records over {CUTS} cuts, {states}")
    assert newest > 100, "there was load"


def test_a_process_whose_disk_dies_ends(disk: Ext4Image) -> None:
    """End without a retry: the next start deals with the rest of a failed sync."""
    directory = disk.mount_point / "wal"
    with start_writer(directory, 1) as writer:
        time.sleep(0.2)
        disk.cut()
        _, errors = writer.communicate(timeout=30)
    assert writer.returncode == FATAL_EXIT, errors
    assert b"Input/output error" in errors
    disk.remount()
    check_log(directory, -1)


def test_a_cut_between_a_start_and_its_first_record(disk: Ext4Image) -> None:
    directory = disk.mount_point / "wal"
    log, _, _ = open_log(directory)
    log.write([])
    disk.cut()
    with pytest.raises(OSError, match="Input/output error"):
        log.sync()
    log.close()
    disk.remount()
    log, found, state = open_log(directory)
    assert (found, state) == ([], "clean")
    log.close()
