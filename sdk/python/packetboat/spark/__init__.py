"""Topics as Spark DataFrames, batch and streaming: the data source `packetboat`.

    packetboat.spark.register(spark)
    spark.read.format("packetboat").option("topic", "orders").load()

Needs the extra `spark`, and Spark 4.0 or later, on the driver and wherever its workers run.
"""

from __future__ import annotations

from packetboat.spark.register import register

__all__ = ["register"]
