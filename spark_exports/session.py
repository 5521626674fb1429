"""The Spark session of a run.

The settings that a run needs are set here, and an operator's own settings of the lake override
them. The session has nothing outside of the run's own directory: no metastore, no warehouse, no
scratch files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from spark_exports.java import java_of
from spark_exports.order import LakeSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOCKET_TIMEOUT_S = 120
"""Seconds for which Python and the JVM wait for each other at the start.

The default is 15 s, which may be too short on a busy machine.
"""
PARTS = Path(__file__).resolve().parents[1]
"""The folder with our packages, at the same path on each machine of a cluster."""
_GIB = 1024**3
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd HH:mm:ss} %p %c{1}: %m%n%ex
# A library for native code that is not needed, and each setting that Spark thinks it knows better.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def session_of(lake: LakeSettings, name: str, state_dir: Path) -> SparkSession:
    """Start a session called `name` on the master of the lake.

    It blocks until a JVM has started, for 5 s and more; the JVM's output goes to our stdout and
    stderr.

    A process has one session, so this is called once. It changes the environment, which is how
    Spark gets its Java and Python. Raises JavaMissing.
    """
    from pyspark.sql import SparkSession

    conf = conf_of(lake, state_dir)
    os.environ.update(environment_of(conf, os.environ, state_dir))
    (state_dir / "tmp").mkdir(parents=True, exist_ok=True)
    (state_dir / "log4j2.properties").write_text(_LOGGING)
    builder = SparkSession.builder.appName(name)
    for setting, value in conf.items():
        builder = builder.config(setting, value)
    return builder.getOrCreate()


def environment_of(
    conf: Mapping[str, str], environ: Mapping[str, str], state_dir: Path
) -> dict[str, str]:
    """Return the variables that Spark reads, which have no settings."""
    changed = {"JAVA_HOME": str(java_of(environ, state_dir).home)}
    # Without this, workers are started with the first python3 on PATH, which may not have our
    # packages.
    python = conf.get("spark.pyspark.python") or environ.get("PYSPARK_PYTHON") or sys.executable
    changed["PYSPARK_PYTHON"] = changed["PYSPARK_DRIVER_PYTHON"] = python
    changed["SPARK_AUTH_SOCKET_TIMEOUT"] = str(SOCKET_TIMEOUT_S)
    if is_local(conf["spark.master"]):
        changed["SPARK_LOCAL_IP"] = "127.0.0.1"
    return changed


def conf_of(lake: LakeSettings, state_dir: Path) -> dict[str, str]:
    """Return all settings of the session; those of the lake win."""
    own = state_dir.absolute()
    conf = {
        "spark.master": lake.spark_master,
        "spark.driver.memory": _memory(memory_bytes()),
        "spark.driver.defaultJavaOptions": (
            f'"-Dlog4j2.configurationFile={(own / "log4j2.properties").as_uri()}"'
            f' "-Djava.io.tmpdir={own / "tmp"}"'
        ),
        "spark.sql.warehouse.dir": (own / "warehouse").as_uri(),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Bodies are of up to megabytes: a batch is bounded by its bytes first.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 * 1024 * 1024),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.python.authenticate.socketTimeout": f"{SOCKET_TIMEOUT_S}s",
        # Packages that tasks need; in the wheel they are in a folder that no other process uses.
        "spark.executorEnv.PYTHONPATH": str(PARTS),
    }
    if is_local(lake.spark_master):
        conf |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # A Hadoop configuration of the machine would make another file system the default one.
            "spark.hadoop.fs.defaultFS": "file:///",
        }
    return conf | lake.spark_conf


def is_local(master: str) -> bool:
    """Return whether a master runs in this process's own JVM: `local`, `local[2]`, `local[*,
    3]`.
    """
    return master == "local" or master.startswith("local[")


def sees_our_files(spark: SparkSession) -> bool:
    """Return whether tasks are processes of this machine, as they are on a local master."""
    return is_local(spark.conf.get("spark.master") or "")


def memory_bytes() -> int:
    """Return the memory of the machine, or a container's limit."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for limit in map(Path, _CGROUP_LIMITS):
        if limit.is_file() and (text := limit.read_text().strip()).isdecimal():
            sizes.append(int(text))
    return min(sizes)


def _memory(machine_bytes: int) -> str:
    """Return a quarter of the memory, from 1 to 4 GiB, since Python workers and others need memory
    too.
    """
    return f"{min(max(machine_bytes // 4, _GIB), 4 * _GIB) // 1024**2}m"
