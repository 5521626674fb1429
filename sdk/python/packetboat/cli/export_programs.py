"""Programs that open the table of an export, as lines to copy."""

from __future__ import annotations

from typing import Any

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
