"""`packetboat export`: a run is waited for, and its table is opened by what is printed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packetboat.cli import exports
from packetboat.cli.exports import described

from tests.unit.sdk.cli_support import Command
from tests.unit.sdk.lake_support import RESCUED, Lake, row


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "LOOK_S", 0.0)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path)
    yield lake
    lake.close()


def run(state: str, **more: Any) -> dict[str, Any]:
    found = {"export": "n", "number": 7, "state": state, "progress": None, "result": None}
    return found | {"failure": None} | more


def answers(*looks: dict[str, Any]) -> dict[str, Any]:
    return {"POST /exports/n:run": run("queued"), "GET /exports/n/runs/7": list(looks)}


READING = {"stage": "reading", "rows": 5, "bytes": 50, "of_messages": 10}
FAILURE = {"code": "lake-unreachable", "message": "no such host"}
DIFFERENT = {"differences": [{"topic": "o", "hour_s": 0}]}


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (run("succeeded", result={"rows": 10, "differences": []}), 0),
        (run("failed", failure=FAILURE), 1),
        (run("cancelled"), 1),
        (run("succeeded", result=DIFFERENT), 1),
    ],
    ids=["succeeded", "failed", "cancelled", "different"],
)
def test_a_run_is_waited_for(command: Command, last: dict[str, Any], code: int) -> None:
    looks = answers(run("queued"), run("running", progress=READING), last)
    ran = command("export", "run", "n", "--wait", "-o", "json", answers=looks)
    assert (ran.code, ran.json) == (code, last)


def test_without_wait_it_is_asked_for_and_no_more(command: Command) -> None:
    ran = command("export", "run", "n", "-o", "json", answers=answers())
    assert (ran.code, ran.json["state"]) == (0, "queued")
    assert ran.server.paths() == ["POST /exports/n:run"]


def test_a_run_that_nobody_takes_is_said_to_wait(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "NOTE_S", -1.0)
    looks = answers(run("queued"), run("queued"), run("succeeded"))
    ran = command("export", "run", "n", "--wait", answers=looks)
    assert ran.code == 0
    assert ran.err.count("packetboat export-runner") == 1


@pytest.mark.parametrize(
    ("url", "said"), [("http://127.0.0.1:8080", True), ("http://server", False)]
)
def test_where_spark_is_missing_it_is_said_how_to_have_it(
    command: Command, monkeypatch: pytest.MonkeyPatch, url: str, said: bool
) -> None:
    monkeypatch.setattr(exports, "find_spec", lambda name: None)
    ran = command("--url", url, "export", "run", "n", "-o", "json", answers=answers())
    assert (ran.code, ran.json["state"]) == (0, "queued")
    assert ("`make exports`" in ran.err and "minute" in ran.err) is said


def test_a_log_is_printed_as_it_is(command: Command) -> None:
    from packetboat.transport import Response

    text = Response(200, {}, b"one\ntwo\n")
    ran = command("export", "log", "n", "7", answers={"GET /exports/n/runs/7/log": text})
    assert ran.out == "one\ntwo\n"


def export(**more: Any) -> dict[str, Any]:
    return {"name": "n", "format": "iceberg", "table_state": None, "rejects_state": None} | more


def test_before_the_first_run_there_is_no_table(command: Command) -> None:
    ran = command("export", "table", "n", answers={"GET /exports/n": export()})
    assert ran.code == 1
    assert "packetboat export run n --wait" in ran.err


def test_the_table_and_its_programs_are_printed(command: Command, lake: Lake) -> None:
    state = lake.table("orders", RESCUED).state
    shown = export(table_state=state)
    ran = command("export", "table", "n", answers={"GET /exports/n": shown})
    for text in (state["metadata_location"], "# PyIceberg", "# DuckDB", "# PySpark"):
        assert text in ran.out
    ran = command("export", "table", "n", "-o", "json", answers={"GET /exports/n": shown})
    assert ran.json["metadata_location"] == state["metadata_location"]
    assert list(ran.json["programs"]) == ["PyIceberg", "DuckDB", "PySpark"]


def printed_by(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("library", ["PyIceberg", "DuckDB"])
def test_a_program_reads_the_table(lake: Lake, library: str) -> None:
    made = lake.table("orders", RESCUED, pa.field("amount", pa.int64()))
    made.append([row(offset, amount=offset) for offset in range(123)])
    program = described(export(table_state=made.state))["programs"][library]
    assert {"PyIceberg": "k9", "DuckDB": "123"}[library] in printed_by(program)


def test_a_program_reads_plain_files(tmp_path: Path) -> None:
    inner = tmp_path / "run=1" / "attempt=1"
    inner.mkdir(parents=True)
    pq.write_table(pa.table({"topic": ["o"] * 123}), inner / "a.parquet")
    pq.write_table(pa.table({"topic": ["o"], "more": [1]}), inner / "b.parquet")
    state = {"location": f"file://{tmp_path}", "metadata_location": None}
    programs = described(export(format="parquet", table_state=state))["programs"]
    assert "124" in printed_by(programs["DuckDB"])


def test_outside_aws_the_storage_is_to_be_named() -> None:
    state = {"location": "s3://b/dev/o", "metadata_location": "s3://b/dev/o/1.metadata.json"}
    for program in described(export(table_state=state))["programs"].values():
        assert "s3.endpoint" in program
        compile(program, "program", "exec")
