"""The errors that a runner gets."""

from __future__ import annotations

import pytest

from spark_exports.driver.drive import MAX_MESSAGE_CHARS, told

THROUGH_SPARK = """An error occurred while calling o70.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/venv/pyspark/worker.py", line 1907, in main
    process()
  File "/venv/packetboat/spark/reading.py", line 90, in read
    raise ReadFailed(text)
packetboat.spark.errors.ReadFailed: topic t, partition 0: nothing is stored at offset 0 any more

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:551)
Caused by: org.apache.spark.SparkException: more
java.lang.IllegalStateException: more
"""


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError(THROUGH_SPARK),
            "packetboat.spark.errors.ReadFailed:"
            " topic t, partition 0: nothing is stored at offset 0 any more",
        ),
        (RuntimeError("plain"), "plain"),
        (RuntimeError(), "RuntimeError"),
        (RuntimeError("x" * 10_000), "x" * MAX_MESSAGE_CHARS),
    ],
)
def test_messages_are_short_and_of_the_cause(error: Exception, message: str) -> None:
    assert told(error) == message
