"""`python -m benchmarks.flushes`: what one flush costs in segments that are made in different ways.

    growing         a file that grows with each append, as the peers' logs do
    preallocated    blocks reserved with fallocate, never written: a flush also makes them written
    filled ahead    the same; a flush that needs new blocks also writes zeros to some that follow
    zero-filled     blocks reserved, then filled with zeros that are synced before the first append
    recycled        blocks that hold other, synced bytes: a segment of a former life

Each is flushed with write + fdatasync, and with one pwritev2(RWF_DSYNC). `direct` writes whole
blocks past the page cache: it is the floor of this disk, not a way for a log that is read from
memory. The variants take turns, in another order in each round, so that the machine's noise meets
all of them. `--image` repeats everything on a loop device with a fresh ext4 (root).
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from harness.measure import median, percentile
from harness.power_cut import Ext4Image

KIB = 1024
MIB = 1024 * KIB
BLOCK_BYTES = 4 * KIB
SIZES = (KIB, 16 * KIB, 64 * KIB)

console = Console(width=140, highlight=False, soft_wrap=True)
Flush = Callable[[int, bytes, int], None]


def synced_by_call(fd: int, data: bytes, at: int) -> None:
    os.pwritev(fd, [data], at)
    os.fdatasync(fd)


def synced_by_flag(fd: int, data: bytes, at: int) -> None:
    os.pwritev(fd, [data], at, os.RWF_DSYNC)


class FilledAhead:
    """Ends a write that goes beyond the zeros with more of them, so that few flushes do so."""

    def __init__(self, ahead_bytes: int) -> None:
        self._ahead_bytes = ahead_bytes
        self._filled = 0

    def __call__(self, fd: int, data: bytes, at: int) -> None:
        if at == BLOCK_BYTES:
            self._filled = 0
        end = at + len(data)
        buffers = [data]
        if end > self._filled:
            self._filled = -(-end // self._ahead_bytes) * self._ahead_bytes
            buffers.append(bytes(self._filled - end))
        os.pwritev(fd, buffers, at)
        os.fdatasync(fd)


class Direct:
    """Writes whole blocks from aligned memory; a block that two appends share is written twice."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 2 * max(SIZES) + 2 * BLOCK_BYTES)

    def __call__(self, fd: int, data: bytes, at: int) -> None:
        inside = at % BLOCK_BYTES
        length = -(-(inside + len(data)) // BLOCK_BYTES) * BLOCK_BYTES
        self._memory[inside : inside + len(data)] = data
        with memoryview(self._memory) as view, view[:length] as blocks:
            os.pwritev(fd, [blocks], at - inside, os.RWF_DSYNC)
        self._memory[: inside + len(data)] = bytes(inside + len(data))


def growing(fd: int, size: int) -> None:
    """Leave the file empty."""


def preallocated(fd: int, size: int) -> None:
    os.posix_fallocate(fd, 0, size)


def zero_filled(fd: int, size: int) -> None:
    os.posix_fallocate(fd, 0, size)
    for at in range(0, size, MIB):
        os.pwrite(fd, bytes(min(MIB, size - at)), at)


def recycled(fd: int, size: int) -> None:
    for at in range(0, size, MIB):
        os.pwrite(fd, os.urandom(min(MIB, size - at)), at)


class Way(NamedTuple):
    """A kind of segment and a kind of flush."""

    name: str
    make: Callable[[int, int], None]
    flush: Flush
    flags: int = 0
    cached: bool = True
    """Whether the segment's pages are in memory before the first append."""


WAYS = (
    Way("growing", growing, synced_by_call),
    Way("preallocated", preallocated, synced_by_call),
    Way("preallocated, RWF_DSYNC", preallocated, synced_by_flag),
    Way("filled 256 KiB ahead", preallocated, FilledAhead(256 * KIB)),
    Way("filled 512 KiB ahead", preallocated, FilledAhead(512 * KIB)),
    Way("filled 1 MiB ahead", preallocated, FilledAhead(MIB)),
    Way("zero-filled", zero_filled, synced_by_call),
    Way("zero-filled, RWF_DSYNC", zero_filled, synced_by_flag),
    Way("zero-filled, not cached", zero_filled, synced_by_call, cached=False),
    Way("recycled", recycled, synced_by_call),
    Way("recycled, RWF_DSYNC", recycled, synced_by_flag),
    Way("recycled, not cached", recycled, synced_by_call, cached=False),
    Way("zero-filled, direct", zero_filled, Direct(), os.O_DIRECT),
)


class Taken(NamedTuple):
    """Figures of the flushes of one way; all but the first are per flush, one for each turn."""

    clock_us: list[float]
    own_us: list[float]
    """CPU of the calling thread."""
    kernel_us: list[float]
    """CPU of kernel threads: the journal's, the block layer's and the loop devices'."""
    writes: list[float]
    """Requests to the device, without cache flushes."""
    written_kib: list[float]
    device_flushes: list[float]


class Device:
    """The counters of a directory's block device, and the CPU of the kernel threads that serve it.

    Both are of the whole machine, so a loop device that nobody else uses tells more.
    """

    def __init__(self, directory: Path) -> None:
        number = directory.stat().st_dev
        self._counters = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat")
        self._threads: list[Path] = []
        for name in Path("/proc").glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                if name.read_text().startswith(("jbd2", "kworker", "loop")):
                    self._threads.append(name.parent / "schedstat")

    def look(self) -> tuple[float, float, float, float]:
        """Return CPU µs of kernel threads, and requests, KiB and flushes of the device."""
        cpu_ns = 0
        for thread in self._threads:
            with contextlib.suppress(OSError):
                cpu_ns += int(thread.read_bytes().split()[0])
        counters = [int(one) for one in self._counters.read_text().split()]
        return cpu_ns / 1000, counters[4], counters[6] / 2, counters[15]


def turn(way: Way, directory: Path, size: int, flushes: int, taken: Taken) -> None:
    """Make a segment, append to it `flushes` times, and remove it."""
    path = directory / "segment"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        way.make(fd, BLOCK_BYTES + size * flushes + MIB)
        os.fsync(fd)
        if not way.cached:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | way.flags)
    device = Device(directory)
    try:
        data = os.urandom(size)
        before, own_ns = device.look(), time.thread_time_ns()
        for at in range(BLOCK_BYTES, BLOCK_BYTES + size * flushes, size):
            began_ns = time.perf_counter_ns()
            way.flush(fd, data, at)
            taken.clock_us.append((time.perf_counter_ns() - began_ns) / 1000)
        taken.own_us.append((time.thread_time_ns() - own_ns) / 1000 / flushes)
        counts = (taken.kernel_us, taken.writes, taken.written_kib, taken.device_flushes)
        for figures, old, new in zip(counts, before, device.look(), strict=True):
            figures.append((new - old) / flushes)
    finally:
        os.close(fd)
        path.unlink()


def measure(directory: Path, where: str, rounds: int, flushes: int) -> None:
    columns = ("p10 µs", "p50", "mean", "p99", "÷ preallocated", "CPU µs", "kernel's")
    table = Table(where, *columns, "device writes", "KiB", "flushes")
    for size in SIZES:
        taken = {way.name: Taken([], [], [], [], [], []) for way in WAYS}
        for _ in range(rounds):
            for way in random.sample(WAYS, len(WAYS)):
                turn(way, directory, size, flushes, taken[way.name])
        today = percentile(taken["preallocated"].clock_us, 10)
        for name, (clock, *rest) in taken.items():
            p10 = percentile(clock, 10)
            times = (p10, percentile(clock, 50), sum(clock) / len(clock), percentile(clock, 99))
            own_us, kernel_us, *counts = (median(figures) for figures in rest)
            table.add_row(
                f"{size // KIB} KiB, {name}",
                *(f"{one:,.0f}" for one in times),
                f"{p10 / today:.2f}",
                f"{own_us:,.0f}",
                f"{kernel_us:,.0f}",
                *(f"{one:.2f}" for one in counts),
            )
        table.add_section()
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flushes", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--flushes", type=int, default=100, help="of each variant in a round")
    parser.add_argument("--image", action="store_true", help="also on a loop device (root)")
    options = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="packetboat-flushes-", dir=os.environ.get("BENCH_DIR")))
    try:
        measure(root, str(root), options.rounds, options.flushes)
        if options.image:
            image = Ext4Image(root / "image", 256)
            image.make()
            try:
                measure(image.mount_point, "loop device", options.rounds, options.flushes)
            finally:
                image.remove()
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
