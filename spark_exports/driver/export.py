"""A run that brings messages into the table: `export`, and `backfill`, which replaces what is
there.

The order of steps, and what holds at each:

1. Open. Table and rejects table are there, with the columns whose types were said by hand. If the
   table has this run already, it is done.
2. Plan. The runner is told the table's positions and answers with ranges; nothing is read before.
   A back-fill has had its ranges from the start.
3. Write. Tasks write files of their slices. Slices that need columns the table lacks wait until it
   has them. No file is visible yet; those of an attempt that dies here are garbage.
4. Commit the rejects, then the rows, each with its positions in one commit. Rejects first: a row
   that is in neither is worse than a run that has to look which rejects are there already, and
   they are, by the rejects table's own positions.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import pyarrow as pa

from spark_exports.driver.bodies.columns import grown, with_pinned
from spark_exports.driver.bodies.shape import Shape
from spark_exports.driver.errors import IncompleteRead
from spark_exports.driver.lines import Lines
from spark_exports.driver.platform import avro_versions
from spark_exports.driver.progress import Reporter
from spark_exports.driver.rejects import Rejects
from spark_exports.driver.rows import base_columns, body_columns
from spark_exports.driver.slice_task import Outcome, SliceTask, TaskSpec
from spark_exports.driver.slices import messages_in, sliced, touched
from spark_exports.driver.spark import Jobs, fresh_token
from spark_exports.driver.target import Target
from spark_exports.driver.targets import Targets
from spark_exports.fail_points import reach
from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import ConflictingColumn
from spark_exports.lake.written import WrittenFile
from spark_exports.order import Done, Order, Position, Range, Result

log = logging.getLogger("packetboat.driver")


class ExportRun:
    """One attempt; `carry_out` once."""

    def __init__(
        self, order: Order, lines: Lines, reporter: Reporter, jobs: Jobs, targets: Targets
    ) -> None:
        self._order = order
        self._spec = order.export
        self._lines = lines
        self._reporter = reporter
        self._jobs = jobs
        self._targets = targets
        self._is_backfill = order.kind == "backfill"

    def carry_out(self) -> Done:
        """Raises RunError, LakeError, and what Spark raises."""
        self._reporter.stage("opening")
        table = self._targets.table()
        reach("opened")
        if not self._is_backfill and table.last_run >= self._order.number:
            log.info("the table has run %d already", table.last_run)
            return _done(table, Result(already=True, table=table.state))
        ranges = self._ranges(table)
        reach("planned")
        total = messages_in(ranges)
        log.info("%d messages in %d ranges", total, len(ranges))
        if not total:
            return _done(table, Result(table=table.state))
        rejects = self._targets.rejects()
        before = table.columns
        table.evolve(self._wanted(table, Shape()))
        self._lines.check()
        self._reporter.stage("writing", of_messages=total)
        outcomes = self._write(table, rejects, ranges)
        reach("files_written")
        return self._commit(table, rejects, ranges, outcomes, before)

    def _ranges(self, table: Target) -> list[Range]:
        if self._is_backfill:
            return [one for one in self._order.ranges or [] if one.end > one.start]
        self._reporter.stage("planning")
        return self._lines.ask(_positions(table))

    def _write(
        self, table: Target, rejects: Rejects | None, ranges: Sequence[Range]
    ) -> list[Outcome]:
        """What was written, of each slice once."""
        slices = sliced(ranges)
        with ExitStack() as stack:
            if self._spec.body != "raw" and not len(body_columns(table.columns, self._spec.body)):
                # All slices will have to be looked at twice: the table is new.
                messages = stack.enter_context(self._jobs.kept_messages(slices))
            else:
                messages = self._jobs.messages(slices)
            task = self._task(table, rejects, ranges, may_grow=self._spec.body != "raw")
            outcomes = self._jobs.outcomes(messages, task)
            shape = Shape()
            spans = []
            for one in outcomes:
                if one.news is not None:
                    shape.add(one.news)
                    spans += one.spans
            again = touched(slices, spans)
            if again:
                self._evolve(table, shape)
                outcomes = [one for one in outcomes if one.news is None]
                if len(again) < len(slices):
                    messages = self._jobs.messages(again)
                task = self._task(table, rejects, ranges, may_grow=False)
                done = sum(one.messages for one in outcomes)
                outcomes += self._jobs.outcomes(messages, task, done)
        self._check_whole(ranges, outcomes)
        return outcomes

    def _task(
        self, table: Target, rejects: Rejects | None, ranges: Sequence[Range], *, may_grow: bool
    ) -> partial[SliceTask]:
        """For columns as the table has them now."""
        order, spec = self._order, self._spec
        avro = {}
        if spec.body == "avro":
            topics = {one.key.topic for one in ranges}
            avro = avro_versions(order.url, fresh_token(order), topics)
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
        self._lines.check()
        before = set(table.columns.names)
        wanted = self._wanted(table, shape)
        while True:
            try:
                columns = table.evolve(wanted)
                break
            except ConflictingColumn as error:
                # The table keeps what it has there, and such values are rescued.
                log.warning("%s", error)
                wanted = _without(wanted, table.columns, {one.path[0] for one in error.conflicts})
        log.info("new columns: %s", ", ".join(sorted(set(columns.names) - before)) or "in structs")
        reach("evolved")

    def _wanted(self, table: Target, shape: Shape) -> pa.Schema:
        if self._spec.body == "raw":
            return table.columns
        body = with_pinned(body_columns(table.columns, self._spec.body), self._spec.columns)
        return pa.schema([*base_columns(self._spec.body), *grown(body, shape)])

    def _check_whole(self, ranges: Sequence[Range], outcomes: Sequence[Outcome]) -> None:
        total, found = messages_in(ranges), sum(one.messages for one in outcomes)
        if found > total or (found < total and self._spec.filter is None):
            raise IncompleteRead(f"{found} messages were read where the ranges have {total}")

    def _commit(
        self,
        table: Target,
        rejects: Rejects | None,
        ranges: list[Range],
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
        committed = table.commit(
            Commit(order.number, order.attempt, ranges, files, replace=self._is_backfill)
        )
        reach("committed")
        messages = sum(one.messages for one in outcomes)
        result = Result(
            rows=sum(one.rows for one in outcomes),
            rejected=sum(one.rejected for one in outcomes),
            filtered=messages_in(ranges) - messages,
            bytes=sum(one.body_bytes for one in outcomes),
            files=len(files),
            file_bytes=sum(file.file_bytes for file in files),
            removed_files=committed.removed_files,
            already=committed.already,
            table=committed.state,
            rejects=rejects_state,
            new_columns=[name for name in table.columns.names if name not in set(before.names)],
        )
        log.info("committed: %d rows, %d rejected", result.rows, result.rejected)
        return _done(table, result)


def _done(table: Target, result: Result) -> Done:
    reach("before_done")
    return Done(result, _positions(table))


def _positions(table: Target) -> list[Position]:
    return [Position(key, offset) for key, offset in sorted(table.positions.items())]


def _without(wanted: pa.Schema, table: pa.Schema, names: set[str]) -> pa.Schema:
    """With these columns as the table has them, if it has them."""
    kept = set(table.names)
    return pa.schema(
        [
            table.field(field.name) if field.name in names else field
            for field in wanted
            if field.name not in names or field.name in kept
        ]
    )
