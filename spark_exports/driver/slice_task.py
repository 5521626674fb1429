"""The task of a slice: it decodes and writes the slice, or finds that the table lacks columns for
it.

The columns are those that the table has when the run begins. Almost always they are enough, and all
is done in one pass. A task that meets a value for which the columns have to grow stops writing,
reads the rest of its slice only to find which columns it needs, and reports them (`news`). The
slice is done again when the table has them. Files of other slices stay as they are: columns that
are added later are null there, and none of their values would be in these columns.

The files in an outcome are complete and durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from packetboat.models.exports import ExportBody

from spark_exports.driver.bodies.avro_bodies import AvroVersion
from spark_exports.driver.bodies.columns import grown, size
from spark_exports.driver.bodies.json_bodies import JsonBodies
from spark_exports.driver.bodies.media import is_json
from spark_exports.driver.bodies.shape import Shape
from spark_exports.driver.bodies.values import Undecodable, json_value
from spark_exports.driver.rows import BodyRows, RawRows, body_columns
from spark_exports.driver.slices import Span
from spark_exports.lake.files import FileWriter, OpenFiles

OUTCOME = "outcome binary"
"""The column of the tasks' results, for Spark: an Outcome in each row."""
_OUTCOMES = pa.schema([("outcome", pa.binary())])
_REBUILD_PART = 16
"""Part of the columns: a reader of bodies is made anew after that many misses."""
LaneNumber = tuple[str, int, int]


class Outcome(msgspec.Struct):
    """The outcome of one task, with files as WrittenFiles.

    With `news` there are no files, and `spans` has to be done again. `messages` are all that were
    read, with `body_bytes` of bodies.
    """

    messages: int = 0
    body_bytes: int = 0
    rows: int = 0
    rejected: int = 0
    files: list[bytes] = []
    reject_files: list[bytes] = []
    news: Shape | None = None
    spans: list[Span] = []


class TaskSpec(msgspec.Struct, frozen=True):
    """The parameters of all tasks of a run.

    `rejects_from` has the offset of each lane from which rejects have to be written; for other
    lanes all are. `may_grow` lets tasks report missing columns.
    """

    form: ExportBody
    keep_data: bool
    writer: FileWriter
    rejects: FileWriter
    rejects_from: dict[LaneNumber, int]
    avro: dict[str, list[AvroVersion]]
    may_grow: bool


class SliceTask:
    """A function for `DataFrame.mapInArrow` over messages with the columns of the data source."""

    def __init__(
        self,
        spec: TaskSpec,
        table: pa.Schema,
        seen: Callable[[int, int], None] = lambda messages, size_bytes: None,
    ) -> None:
        """Make a task; `table` has the table's columns, `seen` gets counts of messages and bytes of
        bodies.
        """
        self._spec = spec
        self._columns = body_columns(table, spec.form)
        self._seen = seen

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outcome = Outcome(files=[], reject_files=[], spans=[])
        counted = self._counted(batches, outcome)
        try:
            self._write(counted, outcome)
        except _MissingColumn as news:
            outcome.files, outcome.reject_files = [], []
            outcome.rows = outcome.rejected = 0
            outcome.news = self._learn(news.batch, counted)
        if outcome.news is None:
            outcome.spans = []
        packed = msgspec.msgpack.encode(outcome)
        yield pa.record_batch([pa.array([packed], pa.binary())], schema=_OUTCOMES)

    def _counted(
        self, batches: Iterator[pa.RecordBatch], outcome: Outcome
    ) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not batch.num_rows:
                continue
            size_bytes = pc.sum(pc.binary_length(batch.column("data"))).as_py() or 0
            outcome.messages += batch.num_rows
            outcome.body_bytes += size_bytes
            _note(outcome.spans, batch)
            self._seen(batch.num_rows, size_bytes)
            yield batch

    def _write(self, batches: Iterator[pa.RecordBatch], outcome: Outcome) -> None:
        """Write the rows and rejects. Raises _MissingColumn, with no files left."""
        spec = self._spec
        rows = self._rows()
        with ExitStack() as stack:
            files = stack.enter_context(OpenFiles(spec.writer.destination))
            rejects: OpenFiles | None = None
            for batch in batches:
                try:
                    split = rows.split(batch)
                except _MissingColumn as news:
                    raise _MissingColumn(batch) from news
                files.add(split.rows)
                outcome.rows += split.rows.num_rows
                rejected = self._not_there_yet(split.rejects)
                outcome.rejected += split.rejects.num_rows
                if rejected.num_rows:
                    if rejects is None:
                        rejects = stack.enter_context(OpenFiles(spec.rejects.destination))
                    rejects.add(rejected)
            if rejects is not None:
                outcome.reject_files = [file.to_bytes() for file in rejects.finish()]
            outcome.files = [file.to_bytes() for file in files.finish()]

    def _rows(self) -> RawRows | BodyRows:
        spec = self._spec
        if spec.form == "raw":
            return RawRows()
        return BodyRows(
            spec.form,
            self._columns,
            keep_data=spec.keep_data,
            avro=spec.avro,
            odd=self._look if spec.may_grow else lambda value: None,
        )

    def _look(self, value: Any) -> None:
        shape = Shape()
        shape.see(value)
        if grown(self._columns, shape) != self._columns:
            raise _MissingColumn

    def _not_there_yet(self, rejects: pa.RecordBatch) -> pa.RecordBatch:
        if not rejects.num_rows or not self._spec.rejects_from:
            return rejects
        lanes = zip(*(rejects.column(name).to_pylist() for name in _LANE), strict=True)
        starts = (self._spec.rejects_from.get(lane, 0) for lane in lanes)
        offsets = rejects.column("offset").to_pylist()
        keep = [offset >= start for offset, start in zip(offsets, starts, strict=True)]
        return rejects.filter(pa.array(keep, pa.bool_()))

    def _learn(self, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Shape:
        learner = _Learner(self._columns)
        learn = learner.avro(self._spec.avro) if self._spec.form == "avro" else learner.json
        learn(first)
        for batch in rest:
            learn(batch)
        return learner.shape


class _MissingColumn(Exception):
    """The table lacks a column for a value in `batch`."""

    def __init__(self, batch: pa.RecordBatch = None) -> None:
        super().__init__()
        self.batch = batch


class _Learner:
    """The shape of all bodies of a slice, except values that have a column already.

    It reads with the columns that will be needed, as far as it knows them, so that most bodies take
    only one quick check.
    """

    def __init__(self, columns: pa.Schema) -> None:
        self.shape = Shape()
        self._columns = columns
        self._reader = JsonBodies(columns)
        self._missed = 0

    def json(self, batch: pa.RecordBatch) -> None:
        types = batch.column("content_type").to_pylist()
        for index, body in enumerate(batch.column("data").to_pylist()):
            if not is_json(types[index]) or body is None or self._reader.holds(body):
                continue
            try:
                value = json_value(body)
            except Undecodable:
                continue
            if isinstance(value, dict):
                self._see(value)

    def avro(
        self, versions: Mapping[str, Sequence[AvroVersion]]
    ) -> Callable[[pa.RecordBatch], None]:
        rows = BodyRows("avro", self._columns, avro=versions, odd=self.shape.see)

        def learn(batch: pa.RecordBatch) -> None:
            rows.split(batch)

        return learn

    def _see(self, value: dict[str, Any]) -> None:
        self.shape.see(value)
        self._missed += 1
        if self._missed > size(self._columns) // _REBUILD_PART:
            columns = grown(self._columns, self.shape)
            self._missed = 0
            if columns != self._columns:
                self._columns = columns
                self._reader = JsonBodies(columns)


_LANE = ("topic", "partition", "lane")


def _note(spans: list[Span], batch: pa.RecordBatch) -> None:
    """Record the lanes and offsets of a batch. One task reads a lane at a time, in order."""
    begins, ends = (_place(batch, at) for at in (0, batch.num_rows - 1))
    if begins[:3] != ends[:3]:
        half = batch.num_rows // 2
        _note(spans, batch.slice(0, half))
        _note(spans, batch.slice(half))
        return
    topic, partition, lane, first = begins
    if spans and (spans[-1].topic, spans[-1].partition, spans[-1].lane) == begins[:3]:
        first = spans.pop().first
    spans.append(Span(topic, partition, lane, first, ends[3]))


def _place(batch: pa.RecordBatch, at: int) -> tuple[str, int, int, int]:
    topic, partition, lane, offset = (batch.column(name)[at].as_py() for name in (*_LANE, "offset"))
    return topic, partition, lane, offset
