"""Back-fills beside rejects, upkeep, comparisons, plain files, Avro, and runs that are stopped."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import fastavro
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from packetboat.models.export_runs import ExportSpec, LaneRange
from pyiceberg.types import UUIDType

from harness import export_specs
from harness.export_specs import maintenance
from spark_exports.driver import export
from spark_exports.driver.bodies.avro_bodies import AvroVersion
from spark_exports.fail_points import FailPoint
from spark_exports.lake.lake import Lake
from spark_exports.order import Failed
from tests.integration.exports.driver.fake_log import BEGINS, Log
from tests.integration.exports.driver.scripted_runner import ScriptedRunner, lane
from tests.integration.exports.driver.tables import TENANT, files, rejects, rows

SPEC = export_specs.spec_of(name="all-orders", topic="orders", table="orders")


@pytest.fixture
def runner(tmp_path: Path) -> ScriptedRunner:
    return ScriptedRunner(None, Log(), tmp_path, SPEC)


def spec_of(**told: object) -> ExportSpec:
    """Return the export with other values of some fields."""
    return replace(SPEC, **told)


# Upkeep


def test_upkeep_joins_files_and_keeps_rows(runner: ScriptedRunner) -> None:
    for number in range(3):
        runner.log.publish({"id": number})
        runner.log.publish(b"no")
        runner.run()
    before = rows(runner.lake, SPEC)
    runner.spec = spec_of(maintenance=maintenance(keep_snapshots_s=0, orphans_after_s=0))
    done = runner.run(runner.order("maintain"))
    assert (done.result.files, len(files(runner.lake, SPEC))) == (2, 1)
    assert done.result.removed_files >= 6
    assert rows(runner.lake, SPEC) == before
    assert len(rejects(runner.lake, SPEC)) == 3
    assert {one.key: one.offset for one in done.positions} == runner.log.ends
    runner.log.publish({"id": 3})
    assert runner.run().result.rows == 1


def test_upkeep_deletes_what_a_dead_attempt_left(
    runner: ScriptedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.log.publish({"id": 0})
    runner.run()
    runner.log.publish({"id": 1})

    def reach(reached: FailPoint) -> None:
        if reached == "files_written":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(export, "reach", reach)
        with pytest.raises(KeyboardInterrupt):
            runner.carry_out(runner.order())
    runner.run(runner.order(number=runner.number, attempt=2))
    assert len(left_by_the_dead(runner)) == 1
    runner.run(runner.order("maintain"))
    assert left_by_the_dead(runner) == []


def left_by_the_dead(runner: ScriptedRunner) -> list[Path]:
    table = runner.directory / "warehouse" / TENANT / "orders"
    return list(table.glob("data/run-2/attempt-1-*/*.parquet"))


def test_upkeep_of_nothing(runner: ScriptedRunner) -> None:
    assert runner.run(runner.order("maintain")).positions == []


# Comparisons


def test_a_table_that_has_the_log_does_not_differ(runner: ScriptedRunner) -> None:
    for number in range(20):
        body = {"id": number} if number % 5 else b"no"
        runner.log.publish(body, partition=number % 2, minutes=number * 20)
    runner.run()
    runner.log.publish({"id": 99})
    done = runner.run(runner.order("reconcile", ranges=runner.all_ranges()))
    assert (done.result.rows, done.result.differences) == (20, ())


def test_hours_that_differ_are_named(runner: ScriptedRunner) -> None:
    for number in range(6):
        runner.log.publish({"id": number}, minutes=number * 20)
    runner.run()
    runner.log.lanes[lane()][4]["key"] = "another"
    del runner.log.lanes[lane()][1]
    done = runner.run(runner.order("reconcile", ranges=[LaneRange(lane(), 0, 6)]))
    first, second = done.result.differences
    assert (first.topic, first.hour_s) == ("orders", int(BEGINS.timestamp()))
    assert (first.log_rows, first.table_rows) == (2, 3)
    assert (second.log_rows, second.table_rows) == (3, 3)
    assert second.log_digest != second.table_digest


def test_only_what_both_may_have_is_compared(runner: ScriptedRunner) -> None:
    """The comparison skips messages that left the log and messages that are not exported yet."""
    for number in range(6):
        runner.log.publish({"id": number})
    runner.run()
    runner.log.publish({"id": 6})
    runner.log.first = 4
    runner.log.reads.clear()
    done = runner.run(runner.order("reconcile", ranges=[LaneRange(lane(), 0, 7)]))
    assert runner.log.reads == [[LaneRange(lane(), 4, 6)]]
    assert (done.result.rows, done.result.differences) == (2, ())


# Back-fills


def test_a_back_fill_takes_out_rejects_and_brings_them_again(runner: ScriptedRunner) -> None:
    for number in range(8):
        runner.log.publish(b"no" if number in (2, 5) else {"id": number})
    runner.run()
    runner.log.publish({"id": 8})
    runner.run()
    for _ in range(2):
        done = runner.run(runner.order("backfill", ranges=[LaneRange(lane(), 4, 9)]))
        assert (done.result.rows, done.result.rejected) == (4, 1)
        assert [row["offset"] for row in rows(runner.lake, SPEC)] == [0, 1, 3, 4, 6, 7, 8]
        assert [row["offset"] for row in rejects(runner.lake, SPEC)] == [2, 5]


def test_a_back_fill_that_was_committed_is_not_done_again(runner: ScriptedRunner) -> None:
    runner.log.publish({"id": 0})
    runner.run()
    order = runner.order("backfill", ranges=[LaneRange(lane(), 0, 1)])
    runner.run(order)
    again = runner.run(
        runner.order("backfill", number=order.number, attempt=2, ranges=order.ranges)
    )
    assert again.result.already
    assert len(rows(runner.lake, SPEC)) == 1


def test_a_back_fill_ahead_of_the_table_is_refused(runner: ScriptedRunner) -> None:
    for number in range(4):
        runner.log.publish({"id": number})
    said = runner.carry_out(runner.order("backfill", ranges=[LaneRange(lane(), 2, 4)]))
    assert isinstance(said, Failed)
    assert (said.code, said.retry) == ("ahead-of-table", False)


# Plain files


def test_plain_files_are_read_without_a_catalog(runner: ScriptedRunner) -> None:
    runner.spec = spec_of(format="parquet")
    for number in range(10):
        runner.log.publish({"id": number} if number != 3 else b"no", minutes=number * 200)
    done = runner.run()
    assert (done.result.rows, done.result.rejected) == (9, 1)
    assert [(one.key, one.offset) for one in done.positions] == [(lane(), 10)]
    place = runner.directory / "warehouse" / TENANT
    found = duckdb.sql(f"select id from '{place}/orders/*/*.parquet' order by \"offset\"")
    assert [row[0] for row in found.fetchall()] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    (rejected,) = (place / "orders_rejects").rglob("*.parquet")
    assert pq.read_table(rejected).column("reason").to_pylist() == ["not-json"]
    again = runner.run(runner.order(number=1, attempt=2))
    assert (again.result.already, again.positions) == (True, done.positions)


def test_plain_files_are_not_kept_in_order(runner: ScriptedRunner) -> None:
    runner.spec = spec_of(format="parquet")
    said = runner.carry_out(runner.order("maintain"))
    assert isinstance(said, Failed)
    assert (said.code, said.retry) == ("bad-order", False)


# Avro


def test_avro_bodies_are_columns(runner: ScriptedRunner) -> None:
    first = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    price = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    second = first | {"fields": [*first["fields"], {"name": "price", "type": price}]}  # type: ignore[misc]
    runner.log.versions = [
        AvroVersion(1, datetime(2025, 1, 1, tzinfo=UTC), json.dumps(first)),
        AvroVersion(2, datetime(2025, 6, 1, tzinfo=UTC), json.dumps(second)),
    ]
    runner.spec = spec_of(body="avro")
    runner.log.publish(encoded(first, {"id": 1}), content_type="avro/binary")
    runner.log.publish(
        encoded(second, {"id": 2, "price": Decimal("12.00")}),
        content_type="avro/binary",
        attributes={"packetboat-schema-version": "2"},
    )
    runner.log.publish(b"", content_type="avro/binary")
    runner.log.publish({"id": 3}, attributes={"packetboat-schema-version": "1"})
    runner.log.publish(b"?", content_type="text/plain")
    done = runner.run()
    assert (done.result.rows, done.result.rejected) == (4, 1)
    found = rows(runner.lake, runner.spec)
    assert [row["id"] for row in found] == [1, 2, 3, None]
    assert [str(row["price"]) for row in found] == ["None", "12.00", "None", "None"]
    assert [row["data"] for row in found] == [None, None, None, b"?"]
    assert [row["reason"] for row in rejects(runner.lake, runner.spec)] == ["not-avro"]


def encoded(schema: object, value: dict[str, object]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas={}), value)  # type: ignore[arg-type]
    return stream.getvalue()


def test_what_no_column_holds_of_avro_is_kept_twice(runner: ScriptedRunner) -> None:
    """The row has the value as JSON for people, and the body as it came."""
    runner.spec = spec_of(body="avro", columns={"id": "string"})
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    runner.log.versions = [AvroVersion(1, BEGINS, json.dumps(schema))]
    body = encoded(schema, {"id": 1})
    runner.log.publish(body, content_type="avro/binary")
    runner.run()
    (row,) = rows(runner.lake, runner.spec)
    assert (row["id"], row["rescued"], row["data"]) == (None, '{"id":1}', body)


# Settings of an export


def test_data_is_kept_where_it_is_asked_for(runner: ScriptedRunner) -> None:
    runner.spec = spec_of(keep_data=True)
    runner.log.publish({"id": 1})
    runner.run()
    (row,) = rows(runner.lake, runner.spec)
    assert (row["id"], row["data"]) == (1, b'{"id": 1}')


def test_types_said_by_hand_may_come_later(runner: ScriptedRunner) -> None:
    runner.log.publish({"id": 1})
    runner.run()
    runner.spec = spec_of(columns={"at": "timestamp", "id": "string"})
    runner.log.publish({"id": 2, "at": "2026-01-01T00:00:00Z"})
    runner.run()
    assert [row["id"] for row in rows(runner.lake, SPEC)] == [1, 2]
    assert rows(runner.lake, SPEC)[1]["at"] == BEGINS


def test_a_type_that_is_none_fails_the_run(runner: ScriptedRunner) -> None:
    runner.spec = spec_of(columns={"at": "moment"})
    said = runner.carry_out(runner.order())
    assert isinstance(said, Failed)
    assert (said.code, said.retry) == ("bad-order", False)


def test_columns_that_someone_else_made_are_left_alone(runner: ScriptedRunner) -> None:
    """A conflict with the table is no reason to fail, nor to lose anything."""
    runner.log.publish({"id": 1})
    runner.run()
    with Lake(runner.lake) as lake:
        table = lake.find(TENANT, "orders", "all-orders")
        assert table is not None
        with table.iceberg.update_schema() as update:
            update.add_column("note", UUIDType())
    runner.log.publish({"id": 2, "note": "x", "new": 1})
    assert runner.run().result.new_columns == ("new",)
    row = rows(runner.lake, SPEC)[1]
    assert (row["id"], row["new"], row["note"]) == (2, 1, None)
    assert json.loads(row["rescued"]) == {"id": 2, "note": "x", "new": 1}


def test_many_topics_are_one_table(runner: ScriptedRunner) -> None:
    for topic in ("orders.eu", "orders.us"):
        for number in range(3):
            runner.log.publish({"id": number}, topic=topic)
    assert runner.run().result.rows == 6
    assert len(rows(runner.lake, SPEC)) == 6


# Stops


@pytest.mark.parametrize("how", [ScriptedRunner.cancel, ScriptedRunner.hang_up])
@pytest.mark.parametrize("point", ["planned", "files_written", "rejects_committed"])
def test_a_run_that_is_stopped_commits_no_more(
    runner: ScriptedRunner,
    how: Callable[[ScriptedRunner], None],
    point: FailPoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner.log.publish({"id": 1})
    runner.log.publish(b"no")

    def reach(reached: FailPoint) -> None:
        if reached == point:
            how(runner)

    with monkeypatch.context() as patch:
        patch.setattr(export, "reach", reach)
        said = runner.carry_out(runner.order())
    assert isinstance(said, Failed)
    assert (said.code, said.retry) == ("cancelled", False)
    assert rows(runner.lake, SPEC) == []
    assert runner.run().result.rows == 1
    assert len(rejects(runner.lake, SPEC)) == 1


def test_a_commit_is_the_end_also_of_a_run_that_was_cancelled(
    runner: ScriptedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.log.publish({"id": 1})

    def reach(reached: FailPoint) -> None:
        if reached == "committed":
            runner.cancel()

    monkeypatch.setattr(export, "reach", reach)
    assert runner.run().result.rows == 1
