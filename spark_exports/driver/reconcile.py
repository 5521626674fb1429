"""A `reconcile` run, which compares the table with the log for each topic and hour.

Both sides count rows and sum digests, of the offsets that are still in the log and below the
table's positions. The log's side goes through the export's filter, so a filter that was changed
since then shows as a difference. A row in the rejects table counts as in the table.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from packetboat.models.export_runs import LaneKey, LaneRange
from packetboat.models.exports import ExportResult, HourDifference

from spark_exports.driver.attempt import Attempt
from spark_exports.driver.errors import BadOrder
from spark_exports.driver.slices import messages_in, sliced
from spark_exports.driver.targets import after
from spark_exports.fail_points import reach
from spark_exports.lake.digest import HourTally, Tally
from spark_exports.lake.rows import rows_of
from spark_exports.order import Done

MAX_DIFFERENCES = 1_000
_NOTHING = HourTally(0, 0)
log = logging.getLogger("packetboat.driver")


def reconcile(attempt: Attempt) -> Done:
    """Compare log and table; `rows` of the result are the log's.

    Raises RunError, LakeError, and what Spark raises.
    """
    order, lines, reporter, jobs, targets = attempt
    reporter.stage("opening")
    table, rejects = targets.find()
    if table is None:
        raise BadOrder("there is no table yet to compare the log with")
    reach("opened")
    first = jobs.platform.first_offsets({one.key for one in order.ranges or ()})
    ranges = clipped(order.ranges or (), first, table.positions)
    reach("planned")
    reporter.stage("reading", of_messages=messages_in(ranges))
    in_log = Tally.of_batches(jobs.tallies(sliced(ranges)) if ranges else ())
    lines.check()
    reporter.stage("comparing")
    in_table = Tally()
    for one in (table, rejects):
        if one is not None:
            in_table.merge(rows_of(one, ranges, jobs.run_tasks))
    found = differences(in_log, in_table)
    log.info("%d hours differ", len(found))
    result = ExportResult(
        rows=sum(hour.rows for hour in in_log.hours.values()),
        table=table.state,
        rejects=None if rejects is None else rejects.state,
        differences=tuple(found[:MAX_DIFFERENCES]),
    )
    reach("before_done")
    return Done(result, after(table, []))


def clipped(
    ranges: Sequence[LaneRange], first: Mapping[LaneKey, int], positions: Mapping[LaneKey, int]
) -> list[LaneRange]:
    """Return the parts of the ranges that are still in the log and already in the table."""
    found = [
        LaneRange(
            one.key,
            max(one.start, first.get(one.key, one.start)),
            min(one.end, positions.get(one.key, 0)),
        )
        for one in ranges
    ]
    return [one for one in found if one.start < one.end]


def differences(in_log: Tally, in_table: Tally) -> list[HourDifference]:
    """Return the differences by topic and hour."""
    found = []
    for hour in sorted(in_log.hours.keys() | in_table.hours.keys()):
        log_side = in_log.hours.get(hour, _NOTHING)
        table_side = in_table.hours.get(hour, _NOTHING)
        if log_side != table_side:
            found.append(
                HourDifference(
                    topic=hour.topic,
                    hour_s=hour.hour_s,
                    log_rows=log_side.rows,
                    table_rows=table_side.rows,
                    log_digest=log_side.text,
                    table_digest=table_side.text,
                )
            )
    return found
