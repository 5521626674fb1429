"""A run from its order to its last word."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from spark_exports.driver.bodies.columns import UnknownType
from spark_exports.driver.errors import BadOrder, RunError, Stopped
from spark_exports.driver.export import ExportRun
from spark_exports.driver.lines import Lines
from spark_exports.driver.maintain import maintain
from spark_exports.driver.platform import HttpPlatform, Platform
from spark_exports.driver.progress import Reporter
from spark_exports.driver.reconcile import reconcile
from spark_exports.driver.spark import Jobs
from spark_exports.driver.targets import Targets
from spark_exports.java import JavaMissing
from spark_exports.lake.errors import LakeError
from spark_exports.order import Done, Failed, LakeSettings, Order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = Callable[[LakeSettings, str, Path], "SparkSession"]
Connect = Callable[[Order], Platform]
MAX_MESSAGE_CHARS = 4_000
log = logging.getLogger("packetboat.driver")


def drive(lines: Lines, session: Session, connect: Connect = HttpPlatform) -> Done | Failed:
    """Carries out the order on `lines`. The answer has been said there, too."""
    try:
        order = lines.order()
        answer: Done | Failed = _carried_out(order, lines, session, connect)
    except RunError as error:
        answer = _failed(error, error.code, error.retry)
    lines.finish(answer)
    return answer


def _carried_out(order: Order, lines: Lines, session: Session, connect: Connect) -> Done | Failed:
    with Reporter(lines) as reporter:
        try:
            return _run(order, lines, reporter, session, connect)
        except (RunError, LakeError) as error:
            return _failed(error, error.code, error.retry)
        except JavaMissing as error:
            return _failed(error, "java-missing", retry=False)
        except UnknownType as error:
            return _failed(error, BadOrder.code, retry=False)
        except Exception as error:
            # Spark's errors have no root of their own, and the runner is to be told in any case.
            if lines.is_stopped:
                return _failed(error, Stopped.code, retry=False)
            log.exception("the run failed")
            return _failed(error, "spark-failed", retry=True)


def _run(
    order: Order, lines: Lines, reporter: Reporter, session: Session, connect: Connect
) -> Done:
    name = f"{order.tenant}/{order.export.name}"
    log.info("%s of %s, run %d, attempt %d", order.kind, name, order.number, order.attempt)
    reporter.stage("starting")
    spark = session(order.lake, f"packetboat export {name}", Path(order.state_dir))
    platform = connect(order)
    jobs = Jobs(spark, platform, reporter)
    lines.on_stop(jobs.cancel)
    lines.check()
    with closing(Targets(order)) as targets:
        match order.kind:
            case "maintain":
                return maintain(order, lines, reporter, jobs, targets)
            case "reconcile":
                return reconcile(order, lines, reporter, jobs, targets, platform)
        return ExportRun(order, lines, reporter, jobs, targets, platform).carry_out()


def _failed(error: Exception, code: str, retry: bool) -> Failed:
    log.error("%s: %s", code, error)
    return Failed(code, told(error), retry)


def told(error: Exception) -> str:
    """The message of an error, short; of one that came through Spark, what Python said in it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(lines)[-MAX_MESSAGE_CHARS:] or type(error).__name__
