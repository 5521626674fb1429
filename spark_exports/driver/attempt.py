"""The objects that runs of all kinds work with."""

from __future__ import annotations

from typing import NamedTuple

from spark_exports.driver.lines import Lines
from spark_exports.driver.progress import Reporter
from spark_exports.driver.spark import Jobs
from spark_exports.driver.targets import Targets
from spark_exports.order import Order


class Attempt(NamedTuple):
    """An attempt at a run."""

    order: Order
    lines: Lines
    reporter: Reporter
    jobs: Jobs
    targets: Targets
