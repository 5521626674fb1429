"""Exports from end to end: `packetboat up` with its runner, the command, a driver with Spark, and
tables that others read."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from packetboat import Client
from packetboat.errors import NotFound
from packetboat.models import Outgoing, Receipt, Retention
from pyiceberg.catalog import Catalog
from pyiceberg.table import StaticTable

from spark_exports.lake.catalog import open_catalog
from spark_exports.runner.lakes import lakes_in
from tests.e2e.installation import Installation
from tests.e2e.lake_rows import Row, digest, duckdb_rows, log_rows, spark_rows, table_rows
from tests.e2e.test_cli import Shell
from tests.e2e.test_tenancy import Http, token_of
from tests.e2e.test_up import wait_until_gone
from tests.spark_session import spark_session

RUN_S = 600.0
"""A session of Spark takes a while to start, on a busy machine."""
COLUMNS = ("id", "amount", "who", "tags")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def platform(exporting: Installation) -> Installation:
    return exporting


@pytest.fixture(scope="module")
def client(platform: Installation) -> Iterator[Client]:
    with Client(platform.url, platform.token) as client:
        yield client


@pytest.fixture(scope="module")
def shell(platform: Installation, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(platform, tmp_path_factory.mktemp("home"))


@contextmanager
def told(platform: Installation) -> Iterator[None]:
    """Add the logs of the runner and the server to an error."""
    try:
        yield
    except BaseException as error:
        error.add_note(platform.logs())
        raise


def until(what: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + RUN_S
    while not (found := what()):
        assert time.monotonic() < deadline_s
        time.sleep(0.2)
    return found


def make_topic(client: Client, name: str, partitions: int = 1, priorities: int = 2) -> None:
    """Make a topic whose messages stay after their export, to be compared with the table."""
    retain = Retention("retain")
    client.topics.create(name, partitions=partitions, priorities=priorities, retention=retain)


def publish(client: Client, topic: str, numbers: range, **more: Any) -> None:
    """Publish JSON bodies, some with a field that others lack, in two priorities."""
    messages = []
    for number in numbers:
        body: dict[str, Any] = {"id": number, "amount": number + 0.5, "who": {"name": f"n{number}"}}
        if number % 3 == 0:
            body["tags"] = ["a", f"b{number}"]
        messages.append(
            Outgoing(
                data=body | more,
                key=f"key-{number % 7}",
                attributes={"number": str(number)},
                priority=number % 2,
            )
        )
    for start in range(0, len(messages), 500):
        for receipt in client.publish_batch(topic, messages[start : start + 500]):
            assert isinstance(receipt, Receipt), receipt


@pytest.fixture(scope="module")
def orders(platform: Installation, client: Client, shell: Shell) -> str:
    """Make a topic, and run its export by hand as the README does."""
    make_topic(client, "orders", partitions=3, priorities=2)
    publish(client, "orders", range(2_000))
    shell.run("export", "create", "orders", "--topic", "orders")
    with told(platform):
        ran = shell.start("export", "run", "orders", "--wait", "-o", "json")
        said, _ = ran.communicate(timeout=RUN_S)
    assert ran.returncode == 0, said
    assert json.loads(said)["result"]["rows"] == 2_000
    return "orders"


def table_of(client: Client, export: str) -> str:
    """Return the metadata file of the export's present table."""
    state = client.exports.get(export).table_state
    assert state is not None
    assert state.metadata_location is not None
    return state.metadata_location


def run(platform: Installation, client: Client, export: str, **what: Any) -> Any:
    """Run the export; return the result of the run, which must succeed."""
    with told(platform):
        ended = client.exports.run(export, **what).wait(timeout_s=RUN_S)
        assert ended.state == "succeeded", ended
    assert ended.result is not None
    return ended.result


def log_of(client: Client, topic: str) -> list[Row]:
    return log_rows(client, topic, lanes=(0, 1))


def has_all(client: Client, export: str, topic: str, *more_columns: str) -> bool:
    """Return whether the export's table has each message of the log once, as it is there."""
    rows = table_rows(table_of(client, export), (*COLUMNS, *more_columns))
    return digest(rows) == digest(sorted(log_of(client, topic)))


def test_every_reader_finds_what_the_log_has(client: Client, orders: str, tmp_path: Path) -> None:
    log = sorted(log_of(client, orders))
    assert len(log) == 2_000
    metadata = table_of(client, orders)
    with spark_session(tmp_path) as spark:
        read = spark_rows(spark, metadata, COLUMNS)
    for rows in (read, table_rows(metadata, COLUMNS), duckdb_rows(metadata, COLUMNS)):
        assert digest(rows) == digest(log)
    export = client.exports.get(orders)
    assert (export.rows, export.rejected, export.lag_messages) == (2_000, 0, 0)
    assert {one.offset for one in export.positions} == {one.end_offset for one in export.positions}


def test_the_next_run_goes_on_and_takes_new_fields_along(
    platform: Installation, client: Client, orders: str
) -> None:
    before = client.exports.get(orders).rows
    publish(client, orders, range(2_000, 2_300), colour="green")
    assert client.exports.get(orders).lag_messages == 300
    result = run(platform, client, orders)
    assert (result.rows, result.new_columns) == (300, ("colour",))
    assert client.exports.get(orders).rows == before + 300
    assert has_all(client, orders, orders, "colour")


def test_what_others_broke_is_found_and_put_right(
    platform: Installation, client: Client, orders: str
) -> None:
    """The table is reconciled, back-filled and tidied; then it equals the log again."""
    log = log_of(client, orders)
    lane, gone = Counter((row.partition, row.lane) for row in log).most_common()[0]
    condition = "partition = {} AND lane = {}".format(*lane)
    catalog_of(platform).load_table("dev.orders").delete(condition)
    found = run(platform, client, orders, kind="reconcile")
    assert sum(one.log_rows - one.table_rows for one in found.differences) == gone
    assert all(one.log_digest != one.table_digest for one in found.differences)
    run(platform, client, orders, kind="backfill", partition=lane[0], from_offset=0)
    run(platform, client, orders, kind="maintain")
    assert has_all(client, orders, orders, "colour")
    assert not run(platform, client, orders, kind="reconcile").differences


def test_what_is_no_json_is_kept_with_its_reason(platform: Installation, client: Client) -> None:
    make_topic(client, "mixed", priorities=1)
    bodies = [b'{"id": 1}', b"{broken", b"[1, 2]", b'{"id": "one"}', b'{"id": 2}']
    for body in bodies:
        client.publish_batch("mixed", [Outgoing(data=body, content_type="application/json")])
    client.exports.create("mixed", "mixed", columns={"id": "long"})
    result = run(platform, client, "mixed")
    assert (result.rows, result.rejected) == (3, 2)
    rows = StaticTable.from_metadata(table_of(client, "mixed")).scan().to_arrow().to_pylist()
    assert sorted((row["offset"], row["id"], row["rescued"]) for row in rows) == [
        (0, 1, None),
        (3, None, '{"id": "one"}'),
        (4, 2, None),
    ]
    state = client.exports.get("mixed").rejects_state
    assert state is not None
    assert state.metadata_location is not None
    rejects = StaticTable.from_metadata(state.metadata_location).scan().to_arrow().to_pylist()
    assert sorted((row["offset"], row["data"]) for row in rejects) == [
        (1, b"{broken"),
        (2, b"[1, 2]"),
    ]
    assert all(row["reason"] for row in rejects)


def test_a_run_is_given_back_by_a_stop_and_cancelled_while_it_reads(
    platform: Installation, client: Client
) -> None:
    make_topic(client, "slow")
    publish(client, "slow", range(500), filling="x" * 1_000)
    # A second for each kilobyte: it would read for minutes.
    client.exports.create("slow", "slow", max_bytes_per_second=1_000)
    handle = client.exports.run("slow")

    def writing(attempt: int) -> bool:
        run = handle.progress()
        at = run.progress is not None and run.progress.stage == "writing"
        return run.attempt == attempt and at

    with told(platform):
        until(lambda: writing(attempt=1))
        assert platform.stop() == 0
        assert wait_until_gone(platform) == {}
        platform.start()
        until(lambda: writing(attempt=2))
        handle.cancel()
        ended = handle.wait(timeout_s=RUN_S)
        assert ended.state == "cancelled"
        until(lambda: not list((platform.directory / "exports").glob("run-*")))
    assert client.exports.get("slow").rows == 0
    assert "stage: writing" in handle.log()


def test_a_run_that_fails_says_why(platform: Installation, client: Client) -> None:
    make_topic(client, "plain")
    publish(client, "plain", range(5))
    client.exports.create("plain", "plain", body="avro")
    with told(platform):
        ended = client.exports.run("plain").wait(timeout_s=RUN_S)
    assert ended.state == "failed"
    assert ended.failure is not None
    assert ended.failure.code == "no-avro-schema"
    shown = client.exports.get("plain").failure
    assert shown == ended.failure


def test_tenants_do_not_meet(platform: Installation, client: Client) -> None:
    """Another tenant's export has the same name, the same table, the same lake."""
    operator = Http(platform.url, platform.token)
    made = operator.ok("POST", "/tenants", json={"name": "harbour", "owner": {"name": "root"}})
    token = token_of(platform.url, made["owner"])
    with Client(platform.url, token) as other:
        with pytest.raises(NotFound):
            other.exports.get("orders")
        make_topic(other, "orders")
        publish(other, "orders", range(40), mine=True)
        other.exports.create("orders", "orders")
        assert run(platform, other, "orders").rows == 40
        state = other.exports.get("orders").table_state
        assert state is not None
        assert state.identifier == "harbour.orders"
        rows = table_rows(table_of(other, "orders"), (*COLUMNS, "mine"))
        assert digest(rows) == digest(sorted(log_of(other, "orders")))
    assert client.exports.get("orders").table_state != state


def test_a_schedule_makes_runs(platform: Installation, client: Client) -> None:
    make_topic(client, "ticks")
    publish(client, "ticks", range(10))
    client.exports.create("ticks", "ticks", cron="* * * * *")

    def ended() -> list[Any]:
        runs = list(client.exports.runs("ticks"))
        return runs if any(one.state == "succeeded" for one in runs) else []

    with told(platform):
        runs = until(ended)
    client.exports.pause("ticks")
    assert all(one.trigger == "schedule" for one in runs)
    times = [one.scheduled_for for one in runs]
    assert len(set(times)) == len(times)
    assert all(one.second == one.microsecond == 0 for one in times)
    assert client.exports.get("ticks").rows == 10


def catalog_of(platform: Installation) -> Catalog:
    """Open the catalog as another program does, by the file that the runner has."""
    (lake,) = lakes_in(platform.directory / "lakes.json").values()
    return open_catalog(lake)
