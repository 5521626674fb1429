"""What a task does with a slice: decode it and write it, or find out that the table lacks columns
for it.

The columns are those that the table has when the run begins. Almost always they are enough, and
all is done in one pass. A task that meets a value that would make the columns grow stops writing,
looks through the rest of its slice only for what columns it needs, and says so (`news`); its slice
is done again when the table has them. What was written of other slices stays as it is: columns that
are added later are null there, and nothing of theirs is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from spark_exports.driver.bodies.avro_bodies import AvroVersion
from spark_exports.driver.bodies.columns import grown, size
from spark_exports.driver.bodies.json_bodies import JsonBodies
from spark_exports.driver.bodies.media import is_json
from spark_exports.driver.bodies.shape import Shape
from spark_exports.driver.bodies.values import Undecodable, json_value
from spark_exports.driver.rows import BodyRows, RawRows, body_columns
from spark_exports.driver.slices import Span
from spark_exports.lake.files import FileWriter, OpenFiles
from spark_exports.order import BodyForm

OUTCOME = "outcome binary"
"""Columns of what tasks give, for Spark: an Outcome each."""
_OUTCOMES = pa.schema([("outcome", pa.binary())])
_REBUILD_PART = 16
"""A reader of bodies is made anew when what it lacked was met so often, in parts of its columns."""
LaneNumber = tuple[str, int, int]


class Outcome(msgspec.Struct):
    """Of one task. With `news` there are no files, and `spans` has to be done again. `messages` are
    all that were read, `body_bytes` are theirs. Files are WrittenFiles."""

    messages: int = 0
    body_bytes: int = 0
    rows: int = 0
    rejected: int = 0
    files: list[bytes] = []
    reject_files: list[bytes] = []
    news: Shape | None = None
    spans: list[Span] = []


class TaskSpec(msgspec.Struct, frozen=True):
    """What all tasks of a run do. `rejects_from`: of each lane, from where on rejects are still to
    be written; all, where it is not named. `may_grow`: say what columns are missing."""

    form: BodyForm
    keep_data: bool
    writer: FileWriter
    rejects: FileWriter
    rejects_from: dict[LaneNumber, int]
    avro: dict[str, list[AvroVersion]]
    may_grow: bool


class SliceTask:
    """For `DataFrame.mapInArrow`, over messages as the data source has them."""

    def __init__(
        self,
        spec: TaskSpec,
        table: pa.Schema,
        seen: Callable[[int, int], None] = lambda messages, size_bytes: None,
    ) -> None:
        """`table`: its columns. `seen` is told how many messages, and how many bytes of bodies."""
        self._spec = spec
        self._columns = body_columns(table, spec.form)
        self._seen = seen

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outcome = Outcome(files=[], reject_files=[], spans=[])
        counted = self._counted(batches, outcome)
        try:
            self._write(counted, outcome)
        except _News as news:
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
        """Raises _News, with nothing left behind."""
        spec = self._spec
        rows = self._rows()
        with ExitStack() as stack:
            files = stack.enter_context(OpenFiles(spec.writer.destination))
            rejects: OpenFiles | None = None
            for batch in batches:
                try:
                    split = rows.split(batch)
                except _News as news:
                    raise _News(batch) from news
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
            raise _News

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


class _News(Exception):
    """The table lacks a column for something in `batch`."""

    def __init__(self, batch: pa.RecordBatch = None) -> None:
        super().__init__()
        self.batch = batch


class _Learner:
    """What all bodies of a slice look like, but for what has its column already. It reads by the
    columns there will be, as far as it knows, so that most bodies take one quick look."""

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
    """What lanes a batch is of. One task reads a lane at a time, in order."""
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
