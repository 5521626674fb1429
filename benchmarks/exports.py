"""Exports and what they cost others: `python -m benchmarks.exports` (make bench-exports).

A topic of `--messages` messages on a `packetboat up` of its own; beside every figure, in the same
round, what limits it:

- *replay*: reading all of it as Arrow, in bytes a second and core of server and store nodes; beside
  it the same bytes as one file of Python's http.server.
- *export*: a run by the real driver into an Iceberg table, from its plan to its commit; beside it
  the same job, slices, decoding and commit, from local Parquet files (parquet_driver.py), so that
  what is left is what reading from the platform costs. The table has its columns already, as it has
  in all runs but the first.
- *live*, *saturated*: messages published one by one at 200 a second, or as many batches as there is
  room for, while nothing else goes on, during an export, and during the job from Parquet, which
  takes processor and disk but nothing of the platform. Drivers are as nice as runners make them.

Prints medians of `--rounds`, a JSON line for each case.
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
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from packetboat import Client
from packetboat.models.export_runs import LaneKey, LaneRange

from benchmarks.datasets import SETS, publish
from benchmarks.driver_run import Driver, Measured
from benchmarks.live_load import LiveLoad, Window
from benchmarks.packetboat_cluster import PacketboatCluster
from benchmarks.parquet_driver import file_of
from edge.message_id import parse
from harness.export_specs import spec_of
from harness.measure import cpu_by_pid, median
from harness.processes import Processes, free_ports, listening, wait_until
from spark_exports.driver.slices import messages_in, sliced
from spark_exports.lake.envelope import ENVELOPE
from spark_exports.order import LakeSettings

TOPIC, LIVE = "exported", "live"
PARTITIONS = 4
WARM = 2_000
"""Messages of each partition that a table has before what is measured: it knows their columns."""
CHUNK_BYTES = 1024 * 1024
_EPOCH = datetime.fromtimestamp(0, UTC)
Figure = dict[str, Any]


class Site:
    """A platform with a topic, and a lake."""

    def __init__(self, directory: Path, messages: int, data: str) -> None:
        self.directory = directory
        self.cluster = PacketboatCluster(directory / "up", {"PACKETBOAT_EXPORTS": "0"})
        self._messages = messages
        self._data = data
        self._tables = 0
        self.ranges: list[LaneRange] = []
        self.body_bytes = 0

    def start(self) -> None:
        self.cluster.start()
        with Client(self.cluster.url, self.cluster.token) as client:
            client.topics.create(TOPIC, partitions=PARTITIONS)
            client.topics.create(LIVE, partitions=PARTITIONS)
            uid = ""
            for _, receipt in publish(client, TOPIC, SETS[self._data](), self._messages):
                uid = uid or parse(receipt.message_id).topic_uid.hex()
            for partition in range(PARTITIONS):
                end = client.messages.offsets(TOPIC, partition, _EPOCH).end
                self.ranges.append(LaneRange(LaneKey(TOPIC, uid, partition, 0), 0, end))
            self._dump(client)

    @property
    def first(self) -> list[LaneRange]:
        return [LaneRange(one.key, 0, min(WARM, one.end)) for one in self.ranges]

    @property
    def rest(self) -> list[LaneRange]:
        return [LaneRange(one.key, min(WARM, one.end), one.end) for one in self.ranges]

    @property
    def parquet(self) -> Path:
        return self.directory / "parquet"

    def run(self, driver: str) -> Measured:
        """Export all but the first messages, into a table that has these."""
        return self.prepared(driver)()

    def prepared(self, driver: str) -> Callable[[], Measured]:
        """Make a table, and return the function for the rest of the work."""
        self._tables += 1
        spec = spec_of(name=f"bench-{self._tables}", topic=TOPIC, table=f"t{self._tables}")
        module = ["benchmarks.parquet_driver", str(self.parquet)]
        running = Driver(
            ["spark_exports.driver"] if driver == "export" else module,
            spec,
            LakeSettings(
                name="bench",
                warehouse=str(self.directory / "lake"),
                catalog={"type": "sql", "uri": f"sqlite:///{self.directory}/catalog.db"},
                spark_conf={"spark.driver.memory": "1g"},
            ),
            self.cluster,
            self.directory / "drivers",
        )
        running.run(1, self.first)
        return lambda: running.run(2, self.rest)

    def _dump(self, client: Client) -> None:
        """Write a Parquet file for each slice that the driver will ask for."""
        self.parquet.mkdir()
        for piece in sliced([*self.first, *self.rest]):
            chunks = client.messages.replay_arrow(
                TOPIC, piece.key.partition, piece.start, end_offset=piece.end
            )
            table = pyarrow.ipc.open_stream(io.BytesIO(b"".join(chunks))).read_all()
            assert table.num_rows == piece.end - piece.start
            self.body_bytes += sum(len(each) for each in table["data"].to_pylist())
            for name, value in (("topic", TOPIC), ("lane", 0)):
                column = pyarrow.array([value] * table.num_rows, ENVELOPE.field(name).type)
                table = table.append_column(name, column)
            pyarrow.parquet.write_table(table.select(ENVELOPE.names), file_of(self.parquet, piece))


def replay(site: Site) -> Figure:
    """Return bytes of Arrow per second of processor time, and those of a file with the same
    bytes.
    """
    url, token = site.cluster.url, site.cluster.token
    kept = site.directory / "arrow"
    headers = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/vnd.apache.arrow.stream",
    }
    with kept.open("wb") as file:
        before, began_s = site.cluster.cpu_by_part(), time.perf_counter()
        for one in site.ranges:
            where = f"{url}/topics/{TOPIC}/partitions/{one.key.partition}/messages?offset=0"
            file.writelines(chunks(urllib.request.Request(where, headers=headers)))
        took_s, after = time.perf_counter() - began_s, site.cluster.cpu_by_part()
    spent_s = {part: after[part] - before.get(part, 0.0) for part in after}
    size = kept.stat().st_size
    cores_s = spent_s["server"] + spent_s["store nodes"]
    with file_server(kept) as (where, pid):
        before_s = cpu_by_pid([pid])[pid]
        read = sum(map(len, chunks(urllib.request.Request(where))))
        file_s = max(0.01, cpu_by_pid([pid])[pid] - before_s)
    assert read == size
    return {
        "messages/s": messages_in(site.ranges) / took_s,
        "MB/s": size / took_s / 1e6,
        "MB/s per core": size / cores_s / 1e6,
        "MB/s per core of the server alone": size / spent_s["server"] / 1e6,
        "over a file's": file_s / cores_s,
    }


def chunks(request: urllib.request.Request) -> Iterator[bytes]:
    with urllib.request.urlopen(request, timeout=60) as answer:
        while chunk := answer.read(CHUNK_BYTES):
            yield chunk


@contextmanager
def file_server(file: Path) -> Iterator[tuple[str, int]]:
    """Yield the URL of a served file, and the process id of its server."""
    (port,) = free_ports(1)
    with Processes() as processes:
        command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
        command += ["--directory", file.parent]
        server = processes.start(command, log=file.with_suffix(".log"))
        wait_until(lambda: listening(port), timeout_s=30, what="http.server")
        yield f"http://127.0.0.1:{port}/{file.name}", server.pid


def export(site: Site, turn: int) -> Figure:
    """Measure a run of the driver, and the same run with Parquet files as its source."""
    runs = {driver: site.run(driver) for driver in turned(["export", "parquet"], turn)}
    ours, theirs = runs["export"], runs["parquet"]
    share = messages_in(site.rest) / messages_in(site.ranges)
    figures: Figure = {}
    for name, one in runs.items():
        figures |= {
            f"{name} rows/s": one.rows / one.took_s,
            f"{name} rows/s per core": one.rows / one.cores_s,
            f"{name} MB/s per core": share * site.body_bytes / one.cores_s / 1e6,
        }
    return figures | {
        "platform's part of the processor time": ours.platform_s / ours.cores_s,
        "export over parquet, time": ours.took_s / theirs.took_s,
        "export over parquet, processor time": ours.cores_s / theirs.cores_s,
    }


def live(site: Site, turn: int, idle_s: float, *, paced: bool) -> Figure:
    """Publishes beside nothing, beside a run, and beside the same from Parquet."""
    prepared = {driver: site.prepared(driver) for driver in ("export", "parquet")}
    windows: dict[str, Window] = {}
    with LiveLoad(site.cluster.url, site.cluster.token, LIVE, paced=paced) as load:
        for what in turned(["idle", "export", "parquet"], turn):
            began_s = time.perf_counter()
            if what == "idle":
                time.sleep(idle_s)
            else:
                began_s = prepared[what]().began_s
            windows[what] = load.window(began_s, time.perf_counter())
    figures: Figure = {}
    for what, window in windows.items():
        figures |= {f"{what} {name}": value for name, value in window._asdict().items()}
    beside, control = windows["export"], windows["parquet"]
    return figures | {
        "export over parquet, rate": beside.rate / control.rate,
        "export over parquet, p50": beside.p50_ms / control.p50_ms,
        "export over parquet, p99": beside.p99_ms / control.p99_ms,
    }


def turned(names: Sequence[str], turn: int) -> list[str]:
    """Return the names in an order that turns with the turn."""
    at = turn % len(names)
    return [*names[at:], *names[:at]]


def medians(rounds: Sequence[Figure]) -> Figure:
    return {name: round(median([each[name] for each in rounds]), 3) for name in rounds[0]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--data", choices=tuple(SETS), default="events")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=10.0, help="seconds")
    parser.add_argument("--only", default="replay,export,live,saturated")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = Path(tempfile.mkdtemp(prefix="packetboat-exports-"))
    directory.chmod(0o755)  # for Postgres, where we are root
    site = Site(directory, options.messages, options.data)
    cases: dict[str, Callable[[int], Figure]] = {
        "replay": lambda turn: replay(site),
        "export": lambda turn: export(site, turn),
        "live": lambda turn: live(site, turn, options.idle, paced=True),
        "saturated": lambda turn: live(site, turn, options.idle, paced=False),
    }
    found: dict[str, list[Figure]] = {name: [] for name in options.only.split(",")}
    try:
        site.start()
        for turn in range(options.rounds):
            for name, figures in found.items():
                figures.append(cases[name](turn))
                print(f"round {turn + 1}, {name}: {figures[-1]}", file=sys.stderr, flush=True)
    except subprocess.CalledProcessError as error:
        print(f"a driver failed: {error.output}", file=sys.stderr)
        return 1
    finally:
        site.cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)
    for name, figures in found.items():
        print(json.dumps({"case": name, "data": options.data} | medians(figures)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
