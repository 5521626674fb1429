"""A standalone cluster of Spark on this machine, of what the package has: a master, and a worker
whose executors are processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pyspark

from spark_exports.java import java_of

PATIENCE_S = 180.0
_SPARK = Path(pyspark.__file__).parent
_DEPLOY = "org.apache.spark.deploy"
_ON_LOOPBACK = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")


class SparkCluster:
    """`master` is where it is once it is `started`, `conf` what a lake on it needs."""

    def __init__(self, directory: Path, cores: int = 2) -> None:
        self._directory = directory
        self._cores = cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""
        self.conf = {
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
        }

    @contextmanager
    def started(self) -> Iterator[Self]:
        """Run the cluster within the block."""
        self._directory.mkdir()
        try:
            self._start("master", f"{_DEPLOY}.master.Master", *_ON_LOOPBACK)
            self.master = self._said("master", r"Starting Spark master at (spark://\S+)")
            own = ("--cores", str(self._cores), "--memory", "2g", "--work-dir", self._directory)
            worker = f"{_DEPLOY}.worker.Worker"
            self._start("worker", worker, *_ON_LOOPBACK, *map(str, own), self.master)
            self._said("worker", r"(Successfully registered with master)")
            yield self
        finally:
            for process in reversed(self._processes):
                process.terminate()
                process.wait()

    @property
    def log(self) -> str:
        """Logs of all processes, and of those that worked for applications."""
        texts = sorted(self._directory.glob("*.log")) + sorted(self._directory.glob("app-*/*/std*"))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')}" for path in texts)

    def tasks(self) -> dict[int, str]:
        """Return the command lines of all executors and their Pythons."""
        marks = (str(self._directory), "CoarseGrainedExecutorBackend", "pyspark.daemon")
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                place = str((entry / "cwd").readlink())
            except OSError:
                continue
            if place.startswith(marks[0]) and any(mark in line for mark in marks[1:]):
                found[int(entry.name)] = line
        return found

    def _start(self, name: str, main: str, *arguments: str) -> None:
        own = {
            "JAVA_HOME": str(java_of(os.environ, self._directory).home),
            "SPARK_HOME": str(_SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(_SPARK / "bin" / "spark-class"), main, *arguments],
                    env=os.environ | own,
                    cwd=self._directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _said(self, name: str, pattern: str) -> str:
        """Wait for a line with the pattern; return its group."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, (self._directory / f"{name}.log").read_text())):
            assert self._processes[-1].poll() is None, self.log
            assert time.monotonic() < deadline_s, self.log
            time.sleep(0.05)
        return found[1]
