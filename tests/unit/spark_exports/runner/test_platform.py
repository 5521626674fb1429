"""The words of runs and those of the SDK are the same: nothing is lost between them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from packetboat.models import export_runs, exports

from spark_exports import order
from spark_exports.runner.platform import (
    MAX_MESSAGE_CHARS,
    Claimed,
    Failure,
    Platform,
)

PAIRS = [
    (order.Result, exports.ExportResult),
    (order.TableState, exports.ExportTable),
    (order.HourDifference, exports.HourDifference),
    (order.Progress, exports.ExportProgress),
    (order.Position, export_runs.LanePosition),
    (order.Range, export_runs.LaneRange),
    (order.LaneKey, export_runs.LaneKey),
    (order.ExportSpec, export_runs.ExportSpec),
    (order.Maintenance, export_runs.SpecMaintenance),
]
KEY = order.LaneKey("t", "u", 1, 2)
TABLE = order.TableState("acme.t", "/lake/acme/t", "/lake/acme/t/metadata/1.json", 7)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda kind: kind.__name__)
def test_both_have_the_same_fields(ours: Any, theirs: Any) -> None:
    assert set(ours.__struct_fields__) == set(theirs.__struct_fields__)


class Calls:
    """The methods of a client that are used; it records their arguments, as values of the SDK."""

    def __init__(self) -> None:
        self.export_runs = self
        self.told: list[Any] = []

    async def claim(self, runner: str, lakes: Any, **_: Any) -> Any:
        spec = export_runs.ExportSpec(
            **msgspec.structs.asdict(order.ExportSpec("e", "t", "t", columns={"a": "long"}))
            | {"maintenance": export_runs.SpecMaintenance(1, 2, 3)}
        )
        ranges = (export_runs.LaneRange(export_runs.LaneKey("t", "u", 1, 2), 5, 9),)
        now = datetime.now(UTC)
        return export_runs.ClaimedExportRun(
            *("uid", "lease", now, "acme", spec, 4, "backfill", 2, "token", now, ranges)
        )

    async def plan(self, uid: str, lease: str, positions: Any) -> Any:
        self.told.append(positions)
        return (export_runs.LaneRange(positions[0].key, 5, 9),)

    async def finish(self, uid: str, lease: str, state: str, **what: Any) -> None:
        self.told.append(what)


async def test_a_claimed_run_is_what_an_order_is_made_of() -> None:
    claimed = await Platform(Calls()).claim("r", ["default"], lease_seconds=60, wait_seconds=0)  # type: ignore[arg-type]
    maintenance = order.Maintenance(1, 2, 3)
    spec = order.ExportSpec("e", "t", "t", columns={"a": "long"}, maintenance=maintenance)
    ranges = [order.Range(KEY, 5, 9)]
    assert claimed == Claimed(
        uid="uid",
        lease="lease",
        tenant="acme",
        export=spec,
        number=4,
        kind="backfill",
        attempt=2,
        token="token",
        ranges=ranges,
    )


async def test_what_a_driver_said_is_told_as_it_was() -> None:
    calls = Calls()
    platform = Platform(calls)  # type: ignore[arg-type]
    positions = [order.Position(KEY, 5)]
    assert await platform.plan("uid", "lease", positions) == [order.Range(KEY, 5, 9)]
    difference = order.HourDifference("t", 0, 1, 2, "a", "b")
    result = order.Result(rows=3, table=TABLE, new_columns=["a"], differences=[difference])
    failure = Failure("c" * 100, "x" * 9_000 + "the cause")
    await platform.finish(
        "uid", "lease", "succeeded", result=result, positions=positions, failure=failure
    )
    told = calls.told[-1]
    assert msgspec.json.encode(told["result"]) == msgspec.json.encode(result)
    assert msgspec.json.encode(told["positions"]) == msgspec.json.encode(positions)
    assert len(told["failure"].code) == 64
    assert len(told["failure"].message) <= MAX_MESSAGE_CHARS
    assert told["failure"].message.endswith("the cause")
