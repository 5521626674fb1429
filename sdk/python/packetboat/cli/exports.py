"""Exports: waiting for a run, and programs that open the table of one, as lines to copy."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from packetboat.cli.api import Api, path
from packetboat.cli.invocation import Invocation
from packetboat.cli.progress import Progress, wait
from packetboat.extras import EXPORTS

FINISHED = frozenset({"succeeded", "failed", "cancelled"})
LOOK_S = 1.0
OUTAGE_S = 60.0
"""Seconds of an outage during which the wait continues."""
NOTE_S = 15.0
"""Seconds after which a note says that a run still waits for a runner."""
_THIS_MACHINE = frozenset({"127.0.0.1", "::1", "localhost"})
_STORAGE = """\
storage = {}  # outside AWS: {"s3.endpoint": "https://…"}
"""
_PYICEBERG = """\
from pyiceberg.table import StaticTable
{storage}table = StaticTable.from_metadata({arguments})
for row in table.scan(row_filter="partition = 0", limit=10).to_arrow().to_pylist():
    print(row)
"""
_DUCKDB = """\
from pyiceberg.table import StaticTable
{storage}table = StaticTable.from_metadata({arguments})
duckdb = table.scan().to_duckdb("messages")
print(duckdb.sql("SELECT topic, count(*) FROM messages GROUP BY topic"))
"""
_SPARK = """\
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession
{storage}table = StaticTable.from_metadata({arguments})
files = [task.file.file_path for task in table.scan().plan_files()]
spark = SparkSession.builder.getOrCreate()
print(spark.read.option("mergeSchema", "true").parquet(*files).count())
"""
_PLAIN_DUCKDB = """\
import duckdb
files = duckdb.read_parquet({files!r}, union_by_name=True)
print(files.aggregate("topic, count(*)"))
"""
_PLAIN_SPARK = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
options = {{"mergeSchema": "true", "recursiveFileLookup": "true"}}
print(spark.read.options(**options).parquet({location!r}).count())
"""


def say_where_spark_is_missing(here: Invocation) -> None:
    """A server on this machine runs exports by the Spark of this Python; without it runs wait."""
    hosts = {urlsplit(url).hostname for url in here.options.urls}
    if hosts <= _THIS_MACHINE and find_spec("pyspark") is None:
        here.output.warning(
            f"Spark is not installed here, so the run waits for a runner: {EXPORTS}"
        )


def followed(here: Invocation, run: dict[str, Any]) -> dict[str, Any]:
    """Wait for a run; return it once it is finished, however it ended."""
    api = Api(here.api.sender, max(here.timeout_s or 0.0, OUTAGE_S))
    where = path("exports", run["export"], "runs", str(run["number"]))
    waits_from = time.monotonic()
    said = False
    with Progress(here.output, "rows", None) as progress:
        while run["state"] not in FINISHED:
            now = run["progress"] or {"stage": run["state"], "rows": 0, "of_messages": 0}
            name = run["state"] if run["state"] == "queued" else now["stage"]
            progress.at(now["rows"], name, now["of_messages"] or None)
            if run["state"] != "queued":
                said = True
            elif not said and time.monotonic() - waits_from > NOTE_S:
                said = True
                here.output.note(
                    f"Run {run['number']} waits for a runner: `packetboat export-runner` is one."
                )
            wait(LOOK_S)
            run = api.get(where)
    return run


def described(export: dict[str, Any]) -> dict[str, Any]:
    """Return the location of the table, and `programs` by the name of their library."""
    state = export["table_state"]
    return {
        "export": export["name"],
        "format": export["format"],
        **state,
        "rejects": export["rejects_state"],
        "programs": _programs(state),
    }


def _programs(state: dict[str, Any]) -> dict[str, str]:
    location = state["location"]
    if state["metadata_location"] is None:
        files = location.removeprefix("file://") + "/**/*.parquet"
        return {
            "DuckDB": _PLAIN_DUCKDB.format(files=files),
            "PySpark": _PLAIN_SPARK.format(location=location),
        }
    metadata = repr(state["metadata_location"])
    known = {"storage": "", "arguments": metadata}
    if location.startswith("s3"):
        known = {"storage": _STORAGE, "arguments": f"{metadata}, storage"}
    return {
        "PyIceberg": _PYICEBERG.format(**known),
        "DuckDB": _DUCKDB.format(**known),
        "PySpark": _SPARK.format(**known),
    }
