"""The cost of remembered ids: `python -m benchmarks.dedup_memory [--ids N] [--groups N]`.

Fills the state machines of one node through their log, all ids within one window, and prints the
memory of the process (with all of a node's code loaded), the times of an insert and a look-up, and
the longest single pause: of one value of 100 ids, of a whole snapshot, of forgetting a window.
Times are CPU times: with other work on the machine the wall clock says little. Exits 1 when the
memory is over the bound that docs/GUARANTEES.md and DESIGN.md state for a node.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import store_nodes.node.node  # noqa: F401  a node's code is part of a node's memory
from store_nodes import commands
from store_nodes.checkpoint.files import DiskFiles
from store_nodes.checkpoint.format import GroupCheckpoint, Rest
from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.machine.dedup import MAX_DEDUP_ENTRIES
from store_nodes.machine.machine import Machine

BOUND_MIB = 600
BATCH = 100
WINDOW_S = 600
START_US = 1_700_000_000_000_000
QUEUES = [bytes(24) + bytes((number,)) for number in range(50)]
SAMPLE_EVERY = 200
FAR_US = START_US + 3600 * 1_000_000


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20


def peak_mib_of(call: Callable[[], object]) -> float:
    """Return the most memory that the process held while `call` ran."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    call()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def checkpoint(loads: list[Load]) -> None:
    """Write a checkpoint as a node does: one group's state at a time, on a real disk."""
    with tempfile.TemporaryDirectory() as directory:
        CheckpointStore(DiskFiles(Path(directory))).write_groups(
            len(loads),
            (
                GroupCheckpoint(one.machine.group, 0, 0, one.machine.state_snapshot())
                for one in loads
            ),
            lambda: Rest(0, 0, b"", b""),
        )


class Pauses:
    """Adds up and remembers the longest."""

    def __init__(self) -> None:
        self.total_s = 0.0
        self.longest_s = 0.0

    def add(self, seconds: float) -> None:
        self.total_s += seconds
        self.longest_s = max(self.longest_s, seconds)


class Load:
    """Ids for one machine, at an even rate over four fifths of a window; the same for one seed."""

    def __init__(self, group: int, ids: int) -> None:
        self.machine = Machine(group)
        self.samples: list[bytes] = []
        self._random = random.Random(group)
        self._step_us = WINDOW_S * 800_000 // (ids // BATCH)
        self._now_us = START_US
        made = [commands.encode(commands.Create(queue, 0, b"")) for queue in QUEUES]
        self._apply(made)

    def value(self, number: int) -> bytes:
        section = b"".join(
            commands.DEDUP_ENTRY.pack(index, self._random.randbytes(16), index)
            for index in range(BATCH)
        )
        if number % SAMPLE_EVERY == 0:
            self.samples.append(section)
        self._now_us += self._step_us
        queue, seq = QUEUES[number % len(QUEUES)], number // len(QUEUES) + 1
        raw = commands.encode_append(
            queue, bytes(16), seq, FAR_US, BATCH, b"x", section, dedup_window_s=WINDOW_S
        )
        return commands.encode_value([raw], self._now_us)

    def _apply(self, raws: list[bytes]) -> None:
        self.machine.apply(self.machine.applied, commands.encode_value(raws, self._now_us))

    def look_up(self) -> tuple[int, float]:
        """Look ids up; return their number, all of which are found, and the seconds it takes."""
        started = time.process_time()
        for section in self.samples:
            raw = commands.encode_append(QUEUES[0], b"!" * 16, 1, 0, BATCH, b"", section)
            command = commands.parse(raw)
            assert isinstance(command, commands.Append)
            assert len(self.machine.dedup_known(command)) == BATCH
        return len(self.samples) * BATCH, time.process_time() - started


def fill(loads: list[Load], ids: int) -> Pauses:
    pauses = Pauses()
    for number in range(ids // BATCH):
        for load in loads:
            value = load.value(number)
            started = time.process_time()
            load.machine.apply(load.machine.applied, value)
            pauses.add(time.process_time() - started)
    for load in loads:
        assert load.machine.dedup_entries == ids // BATCH * BATCH, "an id was refused or forgotten"
    return pauses


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", type=int, default=10_000_000, help="live ids of the node")
    parser.add_argument("--groups", type=int, default=8, help="groups of the node")
    options = parser.parse_args()
    each = options.ids // options.groups
    if each > MAX_DEDUP_ENTRIES:
        parser.error(f"a group remembers at most {MAX_DEDUP_ENTRIES} ids")
    before = rss_mib()
    loads = [Load(group, each) for group in range(options.groups)]
    inserted = fill(loads, each)
    full = rss_mib()
    ids = each * options.groups
    found, seconds = map(sum, zip(*(load.look_up() for load in loads), strict=True))
    gc.collect()
    writing = peak_mib_of(lambda: checkpoint(loads))

    saved, restored, forgot, snapshot_bytes = Pauses(), Pauses(), Pauses(), 0
    for load in loads:
        started = time.process_time()
        raw = load.machine.state_snapshot()
        saved.add(time.process_time() - started)
        snapshot_bytes += len(raw)
        started = time.process_time()
        load.machine = Machine.restore(load.machine.group, raw)
        restored.add(time.process_time() - started)
        del raw
    again = rss_mib()
    for load in loads:
        value = commands.encode_noop(FAR_US)
        started = time.process_time()
        load.machine.apply(load.machine.applied, value)
        forgot.add(time.process_time() - started)
        assert load.machine.dedup_entries == 0

    print(f"{ids:,} live ids in {options.groups} groups")
    print(f"memory of the node      {full:8.0f} MiB (bound {BOUND_MIB}; {before:.0f} before)")
    print(f"  per id                {(full - before) * 2**20 / ids:8.1f} B")
    print(f"  writing a checkpoint  {writing:8.0f} MiB")
    print(f"  restored              {again:8.0f} MiB")
    print(f"insert                  {inserted.total_s / ids * 1e6:8.2f} µs")
    print(f"look-up (hit)           {seconds / found * 1e6:8.2f} µs")
    print(f"snapshot, all groups    {saved.total_s:8.2f} s, {snapshot_bytes / 2**20:.0f} MiB")
    print(f"restore, all groups     {restored.total_s:8.2f} s")
    print("longest pause")
    print(f"  value of {BATCH} ids      {inserted.longest_s * 1e3:8.1f} ms")
    print(f"  snapshot of a group   {saved.longest_s * 1e3:8.1f} ms")
    print(f"  forgetting all ids    {forgot.longest_s * 1e3:8.1f} ms")
    return 0 if max(full, writing, again) <= BOUND_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
