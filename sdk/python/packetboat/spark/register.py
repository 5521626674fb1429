"""Makes the data source known to a Spark session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from packetboat.spark.source import PacketboatDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
_VARIABLES = (
    "PACKETBOAT_URL",
    "PACKETBOAT_TOKEN",
    "PACKETBOAT_CLIENT_ID",
    "PACKETBOAT_CLIENT_SECRET",
    "PACKETBOAT_PROFILE",
    # Where profiles are.
    "HOME",
    "XDG_CONFIG_HOME",
)


def register(spark: SparkSession) -> None:
    """From now on `format("packetboat")` is there.

    Servers and credentials that no option names are those of this process: its variables
    PACKETBOAT_URL and so on, or the profile of `packetboat login`. Where the session's setting
    spark.sql.python.filterPushdown.enabled is true by now, conditions on topic, partition, lane,
    offset and publish_time decide what is read at all; Spark 4.0 has no such setting.
    """
    is_pushed_down = str(spark.conf.get(PUSH_DOWN, "false")).lower() == "true"
    base = _with_push_down() if is_pushed_down else PacketboatDataSource
    kept = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    # A class of its own, so that what it has goes with it to the processes that plan.
    members = {"environment": kept, "parallelism": _parallelism(spark), "__module__": __name__}
    spark.dataSource.register(type(base.__name__, (base,), members))


def _with_push_down() -> type[PacketboatDataSource]:
    try:
        from packetboat.spark.pushdown import PushdownDataSource
    except ImportError:  # before Spark 4.1, which tells no source of conditions
        return PacketboatDataSource
    return PushdownDataSource


def _parallelism(spark: SparkSession) -> int | None:
    """Return the session's parallelism; None over Spark Connect, which does not report it."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Connect has an error of its own, in a module that may not be there
        return None
