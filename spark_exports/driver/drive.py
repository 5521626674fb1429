"""A run, from its order to its answer."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from spark_exports.driver.attempt import Attempt
from spark_exports.driver.bodies.columns import UnknownType
from spark_exports.driver.errors import BadOrder, RunError, Stopped
from spark_exports.driver.export import ExportRun
from spark_exports.driver.lines import Lines
from spark_exports.driver.maintain import maintain
from spark_exports.driver.platform import HttpPlatform
from spark_exports.driver.progress import Reporter
from spark_exports.driver.reconcile import reconcile
from spark_exports.driver.spark import Jobs
from spark_exports.driver.targets import Targets
from spark_exports.java import JavaMissing
from spark_exports.lake.errors import LakeError
from spark_exports.order import Done, Failed, Order
from spark_exports.session import session_of

Start = Callable[[Order, Reporter], Jobs]
MAX_MESSAGE_CHARS = 4_000
_OF_PYTHON = re.compile(r"^(?!(?:java|org|scala)\.)((?:\w+\.)+[A-Z]\w+: .+)$", re.MULTILINE)
"""The line of a stack trace that names an error of a package, as Python writes it."""
log = logging.getLogger("packetboat.driver")


def start_spark(order: Order, reporter: Reporter) -> Jobs:
    """Start a Spark session for a run. Raises JavaMissing."""
    name = f"packetboat export {order.tenant}/{order.export.name}"
    spark = session_of(order.lake, name, Path(order.state_dir))
    is_paced = order.export.max_bytes_per_second is not None
    return Jobs(spark, HttpPlatform(order), reporter, is_paced=is_paced)


def drive(lines: Lines, start: Start = start_spark) -> Done | Failed:
    """Do the run of the order on `lines`, and send its answer there; return the answer."""
    try:
        order = lines.order()
        with Reporter(lines) as reporter:
            answer = _carried_out(order, lines, reporter, start)
    except RunError as error:
        answer = _failed(error, error.code, error.retry)
    lines.finish(answer)
    return answer


def _carried_out(order: Order, lines: Lines, reporter: Reporter, start: Start) -> Done | Failed:
    try:
        return _run(order, lines, reporter, start)
    except (RunError, LakeError) as error:
        return _failed(error, error.code, error.retry)
    except JavaMissing as error:
        return _failed(error, "java-missing", retry=False)
    except UnknownType as error:
        return _failed(error, BadOrder.code, retry=False)
    except Exception as error:
        # Spark's errors have no common base class, and the runner must get an answer in any case.
        if lines.is_stopped:
            return _failed(error, Stopped.code, retry=False)
        log.exception("the run failed")
        return _failed(error, "spark-failed", retry=True)


def _run(order: Order, lines: Lines, reporter: Reporter, start: Start) -> Done:
    name = f"{order.tenant}/{order.export.name}"
    log.info("%s of %s, run %d, attempt %d", order.kind, name, order.number, order.attempt)
    reporter.stage("starting")
    jobs = start(order, reporter)
    lines.on_stop(jobs.cancel)
    lines.check()
    with closing(Targets(order)) as targets:
        attempt = Attempt(order, lines, reporter, jobs, targets)
        if order.kind == "maintain":
            return maintain(attempt)
        if order.kind == "reconcile":
            return reconcile(attempt)
        return ExportRun(attempt).carry_out()


def _failed(error: Exception, code: str, retry: bool) -> Failed:
    log.error("%s: %s", code, error)
    return Failed(code, told(error), retry)


def told(error: Exception) -> str:
    """Return the message of an error.

    For an error that came through Spark it is the message of the Python error in the task, without
    the stacks of both.
    """
    text = str(error)
    said = _OF_PYTHON.findall(text)
    return (said[-1] if said else text.strip() or type(error).__name__)[:MAX_MESSAGE_CHARS]
