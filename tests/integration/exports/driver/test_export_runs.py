"""Runs of an export: what is in the table is what is in the log, once, in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from packetboat.models.export_runs import LaneRange
from pyspark.sql import SparkSession

from harness.export_specs import spec_of
from spark_exports.order import Failed
from tests.integration.exports.driver import tables
from tests.integration.exports.driver.fake_log import Log
from tests.integration.exports.driver.scripted_runner import ScriptedRunner, lane

SPEC = spec_of(name="all-orders", topic="orders", table="orders")


@pytest.fixture
def runner(spark: SparkSession, tmp_path: Path) -> ScriptedRunner:
    return ScriptedRunner(spark, Log(), tmp_path, SPEC)


def rows(runner: ScriptedRunner) -> list[dict[str, Any]]:
    return tables.rows(runner.lake, runner.spec)


def rejects(runner: ScriptedRunner) -> list[dict[str, Any]]:
    return tables.rejects(runner.lake, runner.spec)


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["topic"], row["partition"], row["offset"]) for row in rows]


def test_every_message_is_a_row_once(runner: ScriptedRunner) -> None:
    for number in range(20):
        runner.log.publish({"id": number, "name": f"n{number}"}, partition=number % 2)
    done = runner.run()
    assert (done.result.rows, done.result.rejected) == (20, 0)
    assert done.result.new_columns == ("id", "name")
    found = rows(runner)
    assert places(found) == places(runner.log.all())
    assert [{"id": row["id"], "name": row["name"]} for row in found] == [
        json.loads(message["data"]) for message in runner.log.all()
    ]
    assert {one.key: one.offset for one in done.positions} == runner.log.ends
    assert all(row["data"] is None and row["rescued"] is None for row in found)


def test_the_next_run_goes_on_where_the_table_is(runner: ScriptedRunner) -> None:
    runner.log.publish({"id": 1})
    runner.run()
    runner.log.publish({"id": 2})
    runner.log.publish({"id": 3}, partition=3)
    done = runner.run()
    assert done.result.rows == 2
    assert [row["id"] for row in rows(runner)] == [1, 2, 3]
    assert runner.run().result.rows == 0


def test_a_run_that_was_committed_is_not_done_again(runner: ScriptedRunner) -> None:
    runner.log.publish({"id": 1})
    first = runner.run()
    again = runner.run(runner.order(number=1, attempt=2))
    assert again.result.already
    assert again.positions == first.positions
    assert len(rows(runner)) == 1


def test_a_new_table_is_read_from_the_platform_once(runner: ScriptedRunner) -> None:
    for number in range(30):
        runner.log.publish({f"c{number % 3}": number})
    runner.run()
    assert len(runner.log.reads) == 1
    assert len(rows(runner)) == 30


def test_only_what_brings_new_columns_is_read_twice(
    runner: ScriptedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_exports.driver.slices.sliced.__defaults__", (10,))
    runner.log.publish({"id": 0})
    runner.run()
    for number in range(40):
        runner.log.publish({"id": number, "late": number} if number == 25 else {"id": number})
    runner.log.reads.clear()
    done = runner.run()
    assert done.result.new_columns == ("late",)
    assert runner.log.reads[1:] == [[LaneRange(lane(), 21, 31)]]
    assert [row["late"] for row in rows(runner) if row["late"] is not None] == [25]
    assert places(rows(runner)) == places(runner.log.all())


def test_bodies_that_are_no_objects_are_in_the_rejects(runner: ScriptedRunner) -> None:
    bodies: list[Any] = [{"id": 1}, b"{", [1], b"\xff", {"id": 2}, b"", b"NaN", 7]
    for body in bodies:
        runner.log.publish(body)
    runner.log.publish(b"plain", content_type="text/plain")
    done = runner.run()
    assert (done.result.rows, done.result.rejected) == (3, 6)
    rejected = rejects(runner)
    assert [(row["offset"], row["reason"]) for row in rejected] == [
        (1, "not-json"),
        (2, "not-an-object"),
        (3, "not-utf-8"),
        (5, "not-json"),
        (6, "not-json"),
        (7, "not-an-object"),
    ]
    assert [row["data"] for row in rejected] == [
        runner.log.all()[row["offset"]]["data"] for row in rejected
    ]
    assert [row["data"] for row in rows(runner)] == [None, None, b"plain"]
    runner.log.publish(b"{")
    assert runner.run().result.rejected == 1
    assert len(rejects(runner)) == 7


def test_raw_bodies_are_kept_as_they_are(runner: ScriptedRunner) -> None:
    runner.spec = spec_of(name="all-orders", topic="orders", table="raw", body="raw")
    for body in (b"\xff", b"{", b'{"a": 1}'):
        runner.log.publish(body)
    done = runner.run()
    assert (done.result.rows, done.result.bytes) == (3, 10)
    assert [row["data"] for row in rows(runner)] == [b"\xff", b"{", b'{"a": 1}']
    assert "rescued" not in rows(runner)[0]


def test_a_read_that_is_not_whole_commits_nothing(runner: ScriptedRunner) -> None:
    for number in range(5):
        runner.log.publish({"id": number})
    runner.log.hidden = 2
    said = runner.carry_out(runner.order())
    assert isinstance(said, Failed)
    assert (said.code, said.retry) == ("incomplete-read", True)
    assert rows(runner) == []
    runner.log.hidden = 0
    assert runner.run(runner.order(number=1, attempt=2)).result.rows == 5


def test_what_a_filter_hides_is_counted(runner: ScriptedRunner) -> None:
    runner.spec = spec_of(name="all-orders", topic="orders", table="orders", filter="true")
    for number in range(5):
        runner.log.publish({"id": number})
    runner.log.hidden = 2
    done = runner.run()
    assert (done.result.rows, done.result.filtered) == (3, 2)
    assert [one.offset for one in done.positions] == [5]


def test_a_back_fill_replaces(runner: ScriptedRunner) -> None:
    for number in range(9):
        runner.log.publish({"id": number} if number != 4 else b"no")
    runner.run()
    runner.spec = spec_of(
        name="all-orders", topic="orders", table="orders", columns={"id": "long"}, keep_data=True
    )
    done = runner.run(runner.order("backfill", ranges=[LaneRange(lane(), 3, 6)]))
    assert (done.result.rows, done.result.rejected) == (2, 1)
    assert places(rows(runner)) == [("orders", 0, at) for at in (0, 1, 2, 3, 5, 6, 7, 8)]
    assert [row["offset"] for row in rows(runner) if row["data"] is not None] == [3, 5]
    assert [row["offset"] for row in rejects(runner)] == [4]
    assert [one.offset for one in done.positions] == [9]


def test_progress_counts_what_was_read(runner: ScriptedRunner) -> None:
    for number in range(20):
        runner.log.publish({"id": number})
    runner.run()
    stages = list(dict.fromkeys(one.stage for one in runner.progress))
    assert stages == ["starting", "opening", "planning", "writing", "committing"]
    last = runner.progress[-1]
    assert (last.rows, last.of_messages) == (20, 20)
    assert last.bytes == sum(len(message["data"]) for message in runner.log.all())
