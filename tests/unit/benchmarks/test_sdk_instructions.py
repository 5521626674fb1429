"""The cost of a published message by counts, and when an SDK is worse."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

from benchmarks import sdk_instructions
from benchmarks.sdk_instructions import LONG, Cost, cost, is_worse, publish
from harness.releases import CURRENT


@pytest.mark.parametrize(
    ("this", "worse"),
    [
        (Cost(1000, 128), False),
        (Cost(1029, 128), False),
        (Cost(1031, 128), True),
        (Cost(1000, 125), False),
        (Cost(1000, 120), True),
    ],
)
def test_an_sdk_is_worse_by_3_percent_of_instructions_or_of_batches(
    this: Cost, worse: bool
) -> None:
    assert is_worse(this, Cost(1000, 128)) is worse


def test_256_publishers_that_each_wait_for_a_receipt_share_two_requests() -> None:
    row = asyncio.run(publish(4096))
    assert (row["messages"], row["requests"]) == (4096, 32)


def a_run(sdk: str) -> subprocess.CompletedProcess[str]:
    row = {"requests": 8, "sdk": sdk}
    return subprocess.CompletedProcess([], 0, json.dumps(row), "==1== I   refs:      5,000,000\n")


def test_the_start_of_a_process_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        messages = int(command[-1])
        counted = f"==1== I   refs:      {1_000_000 + 7 * messages:,}\n"
        row = {"requests": 1 + messages // 100, "sdk": str(CURRENT.tree / "packetboat")}
        return subprocess.CompletedProcess(command, 0, json.dumps(row), counted)

    monkeypatch.setattr(subprocess, "run", run)
    assert cost(CURRENT) == Cost(7, 100)


def test_another_sdk_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: a_run("/elsewhere/packetboat"))
    with pytest.raises(SystemExit, match="not in"):
        sdk_instructions.counted(CURRENT, LONG)
