"""Clocks of a process that are moved ahead: all that reads them, and nothing that should not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.testing.shared_clock import SharedClock

HOUR_US = 3_600_000_000
MOVED = """
import asyncio, datetime, sys, time
from pathlib import Path
from gateway.testing.moved_time import MovedLoop, move_monotonic_clock, move_wall_clock
from gateway.testing.shared_clock import SharedClock

shared = SharedClock(Path(sys.argv[1]))
real = [time.time(), time.monotonic(), time.perf_counter()]
taken = datetime.datetime
move_wall_clock(shared)
move_monotonic_clock(shared)
"""
CLOCKS = """
shared.take(3_600_000_000)
assert 3600 <= time.time() - real[0] < 3660
assert 3600 <= time.time_ns() / 1e9 - real[0] < 3660
assert 3600 <= time.monotonic() - real[1] < 3660
assert 3600 <= time.monotonic_ns() / 1e9 - real[1] < 3660
assert time.perf_counter() - real[2] < 60
for now in (taken.now(datetime.UTC), datetime.datetime.now(datetime.timezone.utc)):
    assert 3600 <= now.timestamp() - real[0] < 3660
    assert type(now) is taken and now.tzinfo is datetime.UTC
assert 3600 <= datetime.datetime.now().timestamp() - real[0] < 3660
shared.take(3_600_000_000 * 24 * 30)
assert datetime.date.today() > datetime.date.fromtimestamp(real[0]) + datetime.timedelta(days=28)
assert type(datetime.date.today()) is datetime.date
"""
LOOP = """
async def _bounded(moment):
    await moment.wait()

async def main():
    statement, done = asyncio.Event(), []
    asked = asyncio.create_task(_bounded(statement))
    sleeping = asyncio.create_task(asyncio.sleep(3000))
    await asyncio.sleep(0)
    shared.ask(3_600_000_000)
    for _ in range(10):
        await asyncio.sleep(0.02)
    assert shared.taken_us == 0, "a statement is under way"
    statement.set()
    began = time.perf_counter()
    await sleeping
    assert time.perf_counter() - began < 30
    assert shared.taken_us == 3_600_000_000
    assert shared.leading

with asyncio.Runner(loop_factory=lambda: MovedLoop(shared, lambda: True)) as runner:
    runner.run(main())
"""


def run(program: str, clock: Path) -> None:
    """In a process of its own: nobody else's time is moved."""
    ran = subprocess.run(
        [sys.executable, "-c", MOVED + program, str(clock)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("program", [CLOCKS, LOOP], ids=["clocks", "loop"])
def test_a_process_goes_by_the_offset_that_is_taken(program: str, tmp_path: Path) -> None:
    run(program, tmp_path / "clock")


def test_offsets_are_shared_and_never_become_less(tmp_path: Path) -> None:
    one, other = SharedClock(tmp_path / "clock"), SharedClock(tmp_path / "clock")
    assert (other.asked_us, other.taken_us, other.leading) == (0, 0, False)
    one.ask(HOUR_US)
    one.take(HOUR_US)
    one.say_leading(True)
    assert (other.asked_us, other.taken_us, other.leading) == (HOUR_US, HOUR_US, True)
    with pytest.raises(AssertionError, match="forwards"):
        other.ask(HOUR_US - 1)


def test_looks_of_a_node_count_since_the_present_offset(tmp_path: Path) -> None:
    shared = SharedClock(tmp_path / "clock")
    for _ in range(3):
        shared.node_looked(2)
    assert (shared.looks(1), shared.looks(2)) == (0, 3)
    shared.take(HOUR_US)
    assert shared.looks(2) == 0
    shared.node_looked(2)
    assert shared.looks(2) == 1
