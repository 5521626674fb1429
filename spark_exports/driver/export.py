"""The runs that bring messages into the table: `export`, and `backfill`, which replaces rows.

The steps in their order, and what is durable after each:

1. Open. Table and rejects table exist, with the columns whose types are configured. If the table
   has this run already, it is done.
2. Plan. The runner gets the table's positions and answers with ranges, which the platform has
   stored by then; nothing is read before. A back-fill has had its ranges from the start.
3. Write. Tasks write files of their slices, which are durable when a task returns. Slices that need
   columns the table lacks wait until it has them. No file is visible yet; those of an attempt that
   dies here are garbage.
4. Commit the rejects, then the rows, each with its positions in one commit. Rejects come first: a
   lost row is worse than a run that has to check which rejects are there already, which the
   positions of the rejects table say.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import msgspec
import pyarrow as pa
from packetboat.models.export_runs import LanePosition, LaneRange
from packetboat.models.exports import ExportResult

from spark_exports.driver.attempt import Attempt
from spark_exports.driver.bodies.columns import grown, with_pinned
from spark_exports.driver.bodies.shape import Shape
from spark_exports.driver.errors import IncompleteRead
from spark_exports.driver.rejects import Rejects
from spark_exports.driver.rows import base_columns, body_columns
from spark_exports.driver.slice_task import Outcome, SliceTask, TaskSpec
from spark_exports.driver.slices import messages_in, sliced, touched
from spark_exports.driver.targets import Target, after, has_run
from spark_exports.fail_points import reach
from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import ConflictingColumn
from spark_exports.lake.written import WrittenFile
from spark_exports.order import Done

log = logging.getLogger("packetboat.driver")


class ExportRun:
    """The work of one export run; call `carry_out` once."""

    def __init__(self, attempt: Attempt) -> None:
        self._order, self._lines, self._reporter, self._jobs, self._targets = attempt
        self._spec = self._order.export
        self._is_backfill = self._order.kind == "backfill"

    def carry_out(self) -> Done:
        """Do the run. Raises RunError, LakeError, and what Spark raises."""
        self._reporter.stage("opening")
        table = self._targets.table()
        reach("opened")
        had = None if self._is_backfill else has_run(table, self._order.number)
        if had is not None:
            log.info("the table has this run already")
            counts = table.counts_of(self._order.number)
            result = ExportResult(already=True, table=table.state, last_run=table.last_run)
            return _done(msgspec.structs.replace(result, **counts), had)
        ranges = self._ranges(table)
        reach("planned")
        total = messages_in(ranges)
        log.info("%d messages in %d ranges", total, len(ranges))
        if not total:
            return _done(ExportResult(table=table.state, last_run=table.last_run), after(table, []))
        rejecting = self._targets.rejects()
        rejects = None if rejecting is None else Rejects(rejecting)
        before = table.columns
        self._evolve(table, Shape())
        self._reporter.stage("writing", of_messages=total)
        outcomes = self._write(table, rejects, ranges)
        reach("files_written")
        return self._commit(table, rejects, ranges, outcomes, before)

    def _ranges(self, table: Target) -> list[LaneRange]:
        if self._is_backfill:
            return [one for one in self._order.ranges or [] if one.end > one.start]
        self._reporter.stage("planning")
        ranges = self._lines.ask(after(table, []))
        return [one for one in ranges if one.end > one.start]

    def _write(
        self, table: Target, rejects: Rejects | None, ranges: Sequence[LaneRange]
    ) -> list[Outcome]:
        """Write all slices; return the outcomes, with each slice once."""
        slices = sliced(ranges)
        with ExitStack() as stack:
            if self._spec.body != "raw" and not table.last_run:
                # The table is new, so all slices will be read twice.
                messages = stack.enter_context(self._jobs.kept_messages(slices))
            else:
                messages = self._jobs.messages(slices)
            task = self._task(table, rejects, ranges, may_grow=self._spec.body != "raw")
            outcomes = self._jobs.outcomes(messages, task)
            news = [one for one in outcomes if one.news is not None]
            if news:
                self._evolve(table, _all_news(news))
                outcomes = [one for one in outcomes if one.news is None]
                again = touched(slices, [span for one in news for span in one.spans])
                if len(again) < len(slices):
                    messages = self._jobs.messages(again)
                task = self._task(table, rejects, ranges, may_grow=False)
                done = sum(one.messages for one in outcomes)
                outcomes += self._jobs.outcomes(messages, task, done)
        self._check_whole(ranges, outcomes)
        return outcomes

    def _task(
        self, table: Target, rejects: Rejects | None, ranges: Sequence[LaneRange], *, may_grow: bool
    ) -> partial[SliceTask]:
        """Return the task for the present columns of the table."""
        order, spec = self._order, self._spec
        avro = {}
        if spec.body == "avro":
            avro = self._jobs.platform.avro_versions({one.key.topic for one in ranges})
        writer = table.writer(order.number, order.attempt)
        task = TaskSpec(
            form=spec.body,
            keep_data=spec.keep_data,
            writer=writer,
            rejects=writer if rejects is None else rejects.writer(order),
            rejects_from={} if rejects is None else rejects.starts(ranges, self._is_backfill),
            avro=avro,
            may_grow=may_grow,
        )
        return partial(SliceTask, task, table.columns)

    def _evolve(self, table: Target, shape: Shape) -> None:
        before = table.columns
        wanted = self._wanted(table, shape)
        while wanted != table.columns:
            self._lines.check()
            try:
                table.evolve(wanted)
            except ConflictingColumn as error:
                # The table keeps its column there, and such values are rescued.
                log.warning("%s", error)
                wanted = _without(wanted, table.columns, {one.path[0] for one in error.conflicts})
                continue
            log.info("new columns: %s", ", ".join(_new_columns(table, before)) or "in structs")
            reach("evolved")
            return

    def _wanted(self, table: Target, shape: Shape) -> pa.Schema:
        if self._spec.body == "raw":
            return table.columns
        body = with_pinned(body_columns(table.columns, self._spec.body), self._spec.columns)
        return pa.schema([*base_columns(self._spec.body), *grown(body, shape)])

    def _check_whole(self, ranges: Sequence[LaneRange], outcomes: Sequence[Outcome]) -> None:
        total, found = messages_in(ranges), sum(one.messages for one in outcomes)
        if found > total or (found < total and self._spec.filter is None):
            raise IncompleteRead(f"{found} messages were read where the ranges have {total}")

    def _commit(
        self,
        table: Target,
        rejects: Rejects | None,
        ranges: list[LaneRange],
        outcomes: Sequence[Outcome],
        before: pa.Schema,
    ) -> Done:
        order = self._order
        self._lines.check()
        self._reporter.stage("committing")
        rejects_state = None
        if rejects is not None:
            files = [WrittenFile.from_bytes(file) for one in outcomes for file in one.reject_files]
            rejects_state = rejects.commit(order, ranges, files, table)
        reach("rejects_committed")
        self._lines.check()
        files = [WrittenFile.from_bytes(file) for one in outcomes for file in one.files]
        counts = {
            "rows": sum(one.rows for one in outcomes),
            "rejected": sum(one.rejected for one in outcomes),
            "filtered": messages_in(ranges) - sum(one.messages for one in outcomes),
            "bytes": sum(one.body_bytes for one in outcomes),
        }
        committed = table.commit(
            Commit(order.number, order.attempt, ranges, files, self._is_backfill, counts)
        )
        reach("committed")
        if committed.already:
            counts = table.counts_of(order.number)
        result = ExportResult(
            files=len(files),
            file_bytes=sum(file.file_bytes for file in files),
            removed_files=committed.removed_files,
            already=committed.already,
            last_run=table.last_run,
            table=committed.state,
            rejects=rejects_state,
            new_columns=tuple(_new_columns(table, before)),
        )
        result = msgspec.structs.replace(result, **counts)
        log.info("committed: %d rows, %d rejected", result.rows, result.rejected)
        return _done(result, after(table, ranges))


def _done(result: ExportResult, positions: list[LanePosition]) -> Done:
    reach("before_done")
    return Done(result, positions)


def _all_news(outcomes: Sequence[Outcome]) -> Shape:
    shape = Shape()
    for one in outcomes:
        if one.news is not None:
            shape.add(one.news)
    return shape


def _new_columns(table: Target, before: pa.Schema) -> list[str]:
    known = set(before.names)
    return [name for name in table.columns.names if name not in known]


def _without(wanted: pa.Schema, table: pa.Schema, names: set[str]) -> pa.Schema:
    """Return the columns with the named ones as the table has them, or without them if it has
    none.
    """
    kept = set(table.names)
    return pa.schema(
        [
            table.field(field.name) if field.name in names else field
            for field in wanted
            if field.name not in names or field.name in kept
        ]
    )
