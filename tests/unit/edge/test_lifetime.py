"""Tasks that live as long as their part: an unexpected error does not end them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from structlog.testing import capture_logs

from edge import lifetime
from edge.lifetime import keep_running, own


class Work:
    """Fails `failures` times; then runs until it is cancelled, or returns if it `ends`."""

    def __init__(self, failures: int, *, ends: bool = False) -> None:
        self.begun = 0
        self.ended = False
        self._failures = failures
        self._ends = ends

    async def run(self) -> None:
        self.begun += 1
        if self.begun <= self._failures:
            raise AttributeError("a defect")
        try:
            if not self._ends:
                await asyncio.Event().wait()
        finally:
            self.ended = True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifetime, "AGAIN_AFTER_S", 0.0)


async def test_a_task_that_a_defect_ended_begins_again_and_the_log_tells() -> None:
    work = Work(failures=2, ends=True)
    with capture_logs() as lines:
        await keep_running(work.run, "a sweep")
    assert (work.begun, work.ended) == (3, True)
    failed = [line for line in lines if line["event"] == "background task failed"]
    assert [(line["task"], line["log_level"]) for line in failed] == 2 * [("a sweep", "error")]


async def test_an_owned_task_runs_until_its_stack_is_closed() -> None:
    work = Work(failures=1)
    async with AsyncExitStack() as stack:
        own(stack, work.run)
        while work.begun < 2:
            await asyncio.sleep(0)
        assert not work.ended
    assert work.ended
