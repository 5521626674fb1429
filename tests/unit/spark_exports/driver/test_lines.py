"""Lines between a runner and its driver, over pipes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO

import msgspec
import pytest
from packetboat.models.export_runs import LaneKey, LanePosition, LaneRange
from packetboat.models.exports import ExportResult

from harness.export_specs import spec_of
from spark_exports.driver.errors import BadOrder, Stopped
from spark_exports.driver.lines import Lines
from spark_exports.order import (
    Cancel,
    Done,
    Failed,
    FromDriver,
    FromRunner,
    LakeSettings,
    Opened,
    Order,
    Progress,
    Ranges,
)

ORDER = Order(
    tenant="acme",
    number=1,
    attempt=1,
    kind="export",
    export=spec_of("e", "t", "t"),
    lake=LakeSettings("default", "/lake", {}),
    url="http://127.0.0.1:1",
    token="t",
    state_dir="/tmp",
)
KEY = LaneKey("t", "u", 0, 0)


class Runner:
    """The runner's end of the lines."""

    def __init__(self) -> None:
        to_driver, to_runner = os.pipe(), os.pipe()
        self.lines = Lines(os.fdopen(to_driver[0], "rb"), os.fdopen(to_runner[1], "wb"))
        self.tells: BinaryIO = os.fdopen(to_driver[1], "wb")
        self.hears: BinaryIO = os.fdopen(to_runner[0], "rb")
        self.stopped = threading.Event()

    def tell(self, message: FromRunner) -> None:
        self.tells.write(msgspec.json.encode(message) + b"\n")
        self.tells.flush()

    def hear(self) -> FromDriver:
        return msgspec.json.decode(self.hears.readline(), type=FromDriver)  # type: ignore[no-any-return]

    def begin(self) -> None:
        self.tell(ORDER)
        assert self.lines.order() == ORDER
        self.lines.on_stop(self.stopped.set)


@pytest.fixture
def runner() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    for file in (runner.tells, runner.hears):
        file.close()


def test_ranges_answer_what_was_opened(runner: Runner) -> None:
    runner.begin()
    runner.tell(Ranges([LaneRange(KEY, 3, 9)]))
    assert runner.lines.ask([LanePosition(KEY, 3)]) == [LaneRange(KEY, 3, 9)]
    assert runner.hear() == Opened([LanePosition(KEY, 3)])


@pytest.mark.parametrize("ends", [True, False])
def test_what_is_cancelled_or_left_alone_stops(runner: Runner, ends: bool) -> None:
    runner.begin()
    if ends:
        runner.tells.close()
    else:
        runner.tell(Cancel())
    assert runner.stopped.wait(60)
    with pytest.raises(Stopped, match="gone" if ends else "cancelled"):
        runner.lines.check()
    with pytest.raises(Stopped):
        runner.lines.ask([])


def test_who_is_late_to_hear_of_a_stop_is_told_at_once(runner: Runner) -> None:
    runner.begin()
    runner.tell(Cancel())
    assert runner.stopped.wait(60)
    late = threading.Event()
    runner.lines.on_stop(late.set)
    assert late.is_set()


def test_after_the_last_word_nothing_stops_any_more(runner: Runner) -> None:
    runner.begin()
    said = Done(ExportResult(), [])
    runner.lines.finish(said)
    assert runner.hear() == said
    runner.lines.stop("late")
    assert not runner.lines.is_stopped


def test_a_runner_that_hears_nothing_stops_it(runner: Runner) -> None:
    runner.begin()
    runner.hears.close()
    runner.lines.say(Progress("writing"))
    assert runner.stopped.wait(60)


@pytest.mark.parametrize("line", [b"", b"{}\n", b"what\n", b'{"type":"cancel"}\n'])
def test_what_is_no_order_is_refused(runner: Runner, line: bytes) -> None:
    runner.tells.write(line)
    runner.tells.close()
    with pytest.raises(BadOrder):
        runner.lines.order()


def test_a_process_says_nothing_but_lines() -> None:
    """A print, a C library's output, a child's: all are in the log."""
    program = """
import os, subprocess, sys
from spark_exports.driver.lines import of_process
from spark_exports.order import Failed
lines = of_process()
print("printed")
os.write(1, b"written\\n")
subprocess.run(["echo", "told"])
assert sys.stdin.read() == ""
lines.finish(Failed("code", "message", False))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=b"kept for the order", capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert msgspec.json.decode(done.stdout, type=FromDriver) == Failed("code", "message", False)
    assert sorted(done.stderr.split()) == [b"printed", b"told", b"written"]
