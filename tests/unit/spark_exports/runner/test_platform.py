"""Test what a runner tells the platform of a run."""

from __future__ import annotations

from typing import Any

import msgspec
from packetboat.models import export_runs, exports

from spark_exports import order
from spark_exports.runner.platform import MAX_MESSAGE_CHARS, Platform

KEY = export_runs.LaneKey("t", "u", 1, 2)
TABLE = exports.ExportTable("acme.t", "/lake/acme/t", "/lake/acme/t/metadata/1.json", 7)


class Calls:
    """The methods of a client that are used; it records their arguments, as values of the SDK."""

    def __init__(self) -> None:
        self.export_runs = self
        self.told: list[Any] = []

    async def plan(self, uid: str, lease: str, positions: Any) -> Any:
        self.told.append(positions)
        return (export_runs.LaneRange(positions[0].key, 5, 9),)

    async def renew(self, uid: str, lease: str, **what: Any) -> None:
        self.told.append(what)

    async def finish(self, uid: str, lease: str, state: str, **what: Any) -> None:
        self.told.append(what)


async def test_progress_is_told_without_the_tag_of_its_line() -> None:
    calls = Calls()
    told = order.Progress("read", rows=1, bytes=2, of_messages=3)
    await Platform(calls).renew("uid", "lease", lease_seconds=60, progress=told, log=None)  # type: ignore[arg-type]
    progress = calls.told[-1]["progress"]
    assert msgspec.to_builtins(progress) == {
        "stage": "read",
        "rows": 1,
        "bytes": 2,
        "of_messages": 3,
    }


async def test_what_a_driver_said_is_told_as_it_was() -> None:
    calls = Calls()
    platform = Platform(calls)  # type: ignore[arg-type]
    positions = [export_runs.LanePosition(KEY, 5)]
    assert await platform.plan("uid", "lease", positions) == [export_runs.LaneRange(KEY, 5, 9)]
    difference = exports.HourDifference("t", 0, 1, 2, "a", "b")
    result = exports.ExportResult(
        rows=3, table=TABLE, new_columns=("a",), differences=(difference,)
    )
    failure = exports.ExportFailure("c" * 100, "x" * 9_000 + "the cause")
    await platform.finish(
        "uid", "lease", "succeeded", result=result, positions=positions, failure=failure
    )
    told = calls.told[-1]
    assert msgspec.json.encode(told["result"]) == msgspec.json.encode(result)
    assert msgspec.json.encode(told["positions"]) == msgspec.json.encode(positions)
    assert len(told["failure"].code) == 64
    assert len(told["failure"].message) <= MAX_MESSAGE_CHARS
    assert told["failure"].message.endswith("the cause")
