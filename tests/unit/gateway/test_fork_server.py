"""The processes of `packetboat up` begin as new ones would, and end with it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


class Program:
    """A running `forking_program`, with the processes that it told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        assert select.select([process.stdout], [], [], 20)[0], "it tells nothing"
        told = json.loads(process.stdout.readline())
        self.supervisor, self.short, self.ended, self.long, self.request_id = told
        self.handles = {pid: os.pidfd_open(pid) for pid in (self.supervisor, self.long)}

    def gone(self, pid: int) -> bool:
        """Return whether a process ends within a while."""
        return bool(select.select([self.handles[pid]], [], [], 20)[0])


@contextmanager
def started(log: Path, *options: str) -> Iterator[Program]:
    command = [sys.executable, "-m", "tests.unit.gateway.forking_program", str(log), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with started(tmp_path / "log") as program:
        yield program


def test_a_forked_process_is_what_a_new_one_would_be(program: Program, tmp_path: Path) -> None:
    told: dict[str, Any] = json.loads((tmp_path / "log").read_text())
    assert told.pop("request").split("-")[0] != program.request_id.split("-")[0]
    assert told == {
        "argv": ["program", "work"],
        "orig_argv": [sys.executable, "-P", "program", "work"],
        "shown": ["packetboat", "work"],
        "environment": {"GIVEN": "1"},
        "session": True,
        "input": "",
        "umask": 0o077,
        "handlers": [1, 1],
    }
    assert program.ended == 7


def test_a_signal_reaches_the_supervisor_and_its_exit_code_comes_back(program: Program) -> None:
    program.process.send_signal(signal.SIGTERM)
    assert program.process.wait(20) == signal.SIGTERM
    assert program.gone(program.supervisor)
    assert program.gone(program.long)


def test_all_processes_end_with_the_first_one(program: Program) -> None:
    program.process.kill()
    assert program.gone(program.supervisor)
    assert program.gone(program.long)


def test_all_processes_end_with_the_supervisor(program: Program) -> None:
    os.kill(program.supervisor, signal.SIGKILL)
    assert program.process.wait(20) == 128 + signal.SIGKILL
    assert program.gone(program.long)


def test_a_start_that_is_cancelled_leaves_no_process_and_no_answer(tmp_path: Path) -> None:
    """The next start would take the answer for its own."""
    with started(tmp_path / "log", "cancel") as program:
        assert program.ended == 7
        children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children")
        assert {int(pid) for pid in children.read_text().split()} == {
            program.supervisor,
            program.long,
        }
