"""`python -m tests.e2e.export_million [--messages 1000000] [--data sources]` (make export-million):
a million messages through `packetboat up`, from `publish` to a table that others read.

Publishes a data set by the SDK, has `packetboat export create` and `run --wait` write it, and reads
it by PyIceberg, DuckDB and PySpark. The receipts, the log and the rows that each of the three finds
must be the same messages, each once, in the order of offsets; among messages of one key that is the
order of their publication. Prints the time of each step; fails if one differs.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
from packetboat import Client
from rich.console import Console
from rich.table import Table

from benchmarks.datasets import COLUMNS, SETS, publish
from benchmarks.packetboat_cluster import PacketboatCluster
from harness.settings import inherited_environment
from spark_exports.order import LakeSettings
from spark_exports.session import session_of

PARTITIONS = 4
TOPIC = "million"
READ_MESSAGES = 100_000
ROWS = 10_000
DIGEST_BYTES = 16
console = Console(width=120, highlight=False, soft_wrap=True)


class Seen(NamedTuple):
    """A summary of the messages in one place."""

    count: int
    digest: str
    is_in_order: bool
    """Whether the messages of each key are in the order in which they were published."""


class Tally:
    """Sums up messages that come in any order."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[int, bytes, str, int]]] = {}

    def add(self, partition: int, offset: int, message: tuple[Any, ...], body: Any) -> None:
        """Add a message; `message` has all of it but its place and its body."""
        text = repr((partition, offset, *message)) + json.dumps(body, sort_keys=True)
        digest = sha256(text.encode()).digest()[:DIGEST_BYTES]
        self._rows.setdefault(partition, []).append((offset, digest, message[1], body["n"]))

    def seen(self) -> Seen:
        count, whole, is_in_order = 0, sha256(), True
        last: dict[str, int] = {}
        for _, rows in sorted(self._rows.items()):
            for _, digest, key, number in sorted(rows):
                count += 1
                whole.update(digest)
                is_in_order &= last.get(key, -1) < number
                last[key] = number
        return Seen(count, whole.hexdigest(), is_in_order)


def message(
    message_id: str, key: str | None, published: datetime, attributes: Iterable[tuple[str, str]]
) -> tuple[Any, ...]:
    """Return the compared fields in one form for all places."""
    return message_id, key, round(published.timestamp() * 1e6), tuple(sorted(attributes))


def published(client: Client, data: str, count: int) -> Seen:
    """Publish the data set; return a summary of the receipts."""
    tally = Tally()
    for record, receipt in publish(client, TOPIC, SETS[data](), count):
        assert receipt.partition is not None
        assert receipt.offset is not None
        assert receipt.publish_time is not None
        about = message(
            receipt.message_id, record.key, receipt.publish_time, record.attributes.items()
        )
        tally.add(receipt.partition, receipt.offset, about, record.body)
    return tally.seen()


def stored(client: Client) -> Seen:
    """Return a summary of the log."""
    tally = Tally()
    for partition in range(PARTITIONS):
        at = 0
        while True:
            chunks = client.messages.replay_arrow(
                TOPIC, partition, at, end_offset=at + READ_MESSAGES
            )
            table = pyarrow.ipc.open_stream(io.BytesIO(b"".join(chunks))).read_all()
            if not table.num_rows:
                break
            for row in rows_of(table.to_batches()):
                add(tally, row, json.loads(row["data"]))
            at += table.num_rows
    return tally.seen()


def exported(batches: Iterable[Any], columns: Iterable[str]) -> Seen:
    """Return a summary of a table."""
    tally = Tally()
    for row in rows_of(batches):
        assert row["rescued"] is None, row
        # PyIceberg reads a null list of structs as an empty one (its issue 3833). No body has one.
        there = {name: row[name] for name in columns if row[name] not in (None, [])}
        add(tally, row, there)
    return tally.seen()


def add(tally: Tally, row: dict[str, Any], body: Any) -> None:
    attributes = row["attributes"]
    pairs = attributes.items() if isinstance(attributes, dict) else attributes
    about = message(row["message_id"], row["key"], row["publish_time"], pairs)
    tally.add(row["partition"], row["offset"], about, body)


def rows_of(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield a few rows at a time: a million as objects would be gigabytes."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS):
            yield from batch.slice(start, ROWS).to_pylist()


def by_pyiceberg(metadata: str, directory: Path) -> Iterator[Any]:
    from pyiceberg.table import StaticTable

    yield from StaticTable.from_metadata(metadata).scan().to_arrow_batch_reader()


def by_duckdb(metadata: str, directory: Path) -> Iterator[Any]:
    import duckdb

    with duckdb.connect() as connection:
        files = connection.read_parquet(files_of(metadata), union_by_name=True)
        yield from files.order('partition, "offset"').to_arrow_reader(ROWS)


def by_spark(metadata: str, directory: Path) -> Iterator[Any]:
    lake = LakeSettings(
        name="here",
        warehouse="",
        catalog={},
        spark_master="local[2]",
        spark_conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "4"},
    )
    spark = session_of(lake, "export-million", directory)
    try:
        rows = spark.read.option("mergeSchema", "true").parquet(*files_of(metadata))
        for partition in range(PARTITIONS):
            part = rows.where(rows.partition == partition).orderBy("offset")
            yield from part.toArrow().to_batches()
    finally:
        spark.stop()


def files_of(metadata: str) -> list[str]:
    """Return the data files of the table's snapshot."""
    from pyiceberg.table import StaticTable

    tasks = StaticTable.from_metadata(metadata).scan().plan_files()
    return [task.file.file_path.removeprefix("file://") for task in tasks]


READERS: dict[str, Callable[[str, Path], Iterator[Any]]] = {
    "PyIceberg": by_pyiceberg,
    "DuckDB": by_duckdb,
    "PySpark": by_spark,
}


class Program:
    """One installation, one topic, one export."""

    def __init__(self, cluster: PacketboatCluster, data: str, count: int) -> None:
        self._cluster = cluster
        self._data = data
        self._count = count
        self.took: dict[str, float] = {}
        self.seen: dict[str, Seen] = {}
        self.problems: list[str] = []

    def run(self) -> None:
        with Client(self._cluster.url, self._cluster.token) as client:
            client.topics.create(TOPIC, partitions=PARTITIONS)
            self._see("publisher", lambda: published(client, self._data, self._count))
            self._see("log", lambda: stored(client))
            self._command("create", TOPIC, "--topic", TOPIC)
            self._timed("export", lambda: self._command("run", TOPIC, "--wait"))
            shown = client.exports.get(TOPIC)
            if shown.rows != self._count:
                self.problems.append(f"GET /exports/{TOPIC} shows {shown.rows} rows")
            assert shown.table_state is not None
            metadata = shown.table_state.metadata_location
            assert metadata is not None
            for name, read in READERS.items():
                self._read(name, read, metadata)
        for name, seen in self.seen.items():
            if seen != Seen(self._count, self.seen["publisher"].digest, is_in_order=True):
                self.problems.append(f"{name}: {seen}, and the publisher {self.seen['publisher']}")

    def _read(self, name: str, read: Callable[[str, Path], Iterator[Any]], metadata: str) -> None:
        directory = self._cluster.directory / name
        directory.mkdir()
        self._see(name, lambda: exported(read(metadata, directory), COLUMNS[self._data]))

    def _see(self, name: str, see: Callable[[], Seen]) -> None:
        self.seen[name] = self._timed(name, see)

    def _timed(self, name: str, act: Callable[[], Any]) -> Any:
        began_s = time.perf_counter()
        done = act()
        self.took[name] = time.perf_counter() - began_s
        console.print(f"  {name}: {self.took[name]:.1f} s")
        return done

    def _command(self, *arguments: str) -> None:
        """Run `packetboat export …`; raises CalledProcessError."""
        env = inherited_environment(
            PACKETBOAT_URL=self._cluster.url, PACKETBOAT_TOKEN=self._cluster.token
        )
        command = [Path(sys.executable).with_name("packetboat"), "export", *arguments]
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)


def report(program: Program, count: int) -> None:
    table = Table(title=f"{count:,} messages")
    for name in ("what", "seconds", "messages/s", "count", "digest"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for name, took_s in program.took.items():
        seen = program.seen.get(name)
        told = (f"{seen.count:,}", seen.digest[:12]) if seen else ("", "")
        table.add_row(name, f"{took_s:.1f}", f"{count / took_s:,.0f}", *told)
    console.print(table)


def main() -> int:
    """Exit status 1 when somebody has something else."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--data", choices=tuple(SETS), default="sources")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = Path(tempfile.mkdtemp(prefix="packetboat-million-"))
    directory.chmod(0o755)  # for Postgres, where we are root
    cluster = PacketboatCluster(directory / "up", {"PACKETBOAT_EXPORTS": "1"})
    try:
        cluster.start()
        program = Program(cluster, options.data, options.messages)
        program.run()
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)
    report(program, options.messages)
    for problem in program.problems:
        console.print(f"WRONG  {problem}", style="bold")
    return 1 if program.problems else 0


if __name__ == "__main__":
    sys.exit(main())
