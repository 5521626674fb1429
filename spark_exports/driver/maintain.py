"""A `maintain` run: joins small files, expires old snapshots, and deletes files that nothing names.

Each step is a commit of its own and leaves the rows as they are. A run that dies in between leaves
a table that is in order.
"""

from __future__ import annotations

import logging

from packetboat.models.exports import ExportResult

from spark_exports.driver.attempt import Attempt
from spark_exports.driver.targets import after
from spark_exports.fail_points import reach
from spark_exports.lake.maintenance import compact, expire_snapshots, remove_orphans
from spark_exports.order import Done

log = logging.getLogger("packetboat.driver")


def maintain(attempt: Attempt) -> Done:
    """Maintain the table and its rejects, as far as they exist.

    `files` of the result were added, in place of some of the `removed_files`. Raises Stopped,
    LakeError, and what Spark raises.
    """
    order, lines, reporter, jobs, targets = attempt
    reporter.stage("opening")
    tables = [table for table in targets.find() if table is not None]
    reach("opened")
    added = added_bytes = removed = 0
    for table in tables:
        name = table.state.identifier
        lines.check()
        reporter.stage("joining files")
        joined = compact(
            table, order.export.maintenance, order.number, order.attempt, jobs.run_tasks
        )
        reach("files_written")
        added += joined.added_files
        added_bytes += joined.added_bytes
        log.info("%s: %d files became %d", name, joined.removed_files, joined.added_files)
        lines.check()
        reporter.stage("cleaning up")
        forgotten = expire_snapshots(table, order.export.maintenance)
        orphans = remove_orphans(table, order.export.maintenance, order.number, order.attempt)
        reach("committed")
        log.info("%s: %d snapshots forgotten, %d orphans", name, forgotten, orphans.files)
        removed += joined.removed_files + orphans.files
    main = tables[0] if tables else None
    result = ExportResult(
        files=added,
        file_bytes=added_bytes,
        removed_files=removed,
        table=None if main is None else main.state,
    )
    reach("before_done")
    return Done(result, [] if main is None else after(main, []))
