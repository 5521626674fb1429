"""Messages as rows of an export's table, batch by batch, and messages that cannot be rows as
rejects.

The table of a message depends on nothing but the message itself, so every attempt and every run
sends it to the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from packetboat.models.exports import ExportBody

from spark_exports.driver.bodies.avro_bodies import TYPES as AVRO_TYPES
from spark_exports.driver.bodies.avro_bodies import AvroBodies, AvroVersion, as_text
from spark_exports.driver.bodies.json_bodies import Decoded, JsonBodies
from spark_exports.driver.bodies.media import essence, is_json
from spark_exports.driver.bodies.values import Undecodable
from spark_exports.lake.envelope import ENVELOPE, RESCUED

REASON = "reason"
REJECTS = pa.schema([*ENVELOPE, pa.field(REASON, pa.string())])
"""The columns of a rejects table."""
_DATA = ENVELOPE.get_field_index("data")


def base_columns(form: ExportBody) -> pa.Schema:
    """Return the columns of a table before those of bodies."""
    return ENVELOPE if form == "raw" else pa.schema([*ENVELOPE, pa.field(RESCUED, pa.string())])


def body_columns(table: pa.Schema, form: ExportBody) -> pa.Schema:
    """Return the columns of a table that hold members of bodies."""
    own = set(base_columns(form).names)
    return pa.schema([field for field in table if field.name not in own])


class Split(NamedTuple):
    """The rows of a batch for the table and for its rejects, each in their order."""

    rows: pa.RecordBatch
    rejects: pa.RecordBatch


class RawRows:
    """A splitter that keeps bodies as they are."""

    def split(self, batch: pa.RecordBatch) -> Split:
        envelope = pa.RecordBatch.from_arrays(_envelope(batch), schema=ENVELOPE)
        return Split(envelope, no_rejects())


class BodyRows:
    """A splitter that turns bodies into columns."""

    def __init__(
        self,
        form: ExportBody,
        columns: pa.Schema,
        *,
        keep_data: bool = False,
        avro: Mapping[str, Sequence[AvroVersion]] | None = None,
        odd: Callable[[Any], None] = lambda value: None,
    ) -> None:
        """Make a splitter; `columns` are those of bodies, `avro` has versions of the schemas of
        topics.

        `odd` is called with each value that the strict reader had to read; all others need no new
        columns.
        """
        self._form = form
        self._keep_data = keep_data
        self._json = JsonBodies(columns)
        self._avro = {topic: AvroBodies(versions) for topic, versions in (avro or {}).items()}
        self._odd = odd
        self._schema = pa.schema([*base_columns(form), *columns])

    def split(self, batch: pa.RecordBatch) -> Split:
        """Split messages that have the columns of the data source."""
        found = _Found(self._json.empty)
        if self._form == "avro":
            self._read_avro(batch, found)
        else:
            self._read_json(batch, found)
        envelope = _envelope(batch)
        rejects = no_rejects()
        if found.rejected:
            at = pa.array(found.rejected, pa.int64())
            taken = [column.take(at) for column in envelope]
            rejects = pa.RecordBatch.from_arrays(
                [*taken, pa.array(found.reasons, pa.string())], schema=REJECTS
            )
            at = pa.array(found.kept, pa.int64())
            envelope = [column.take(at) for column in envelope]
        if not self._keep_data:
            envelope[_DATA] = pa.array(found.data, pa.binary())
        arrays = [
            *envelope,
            pa.array(found.rescued, pa.string()),
            *self._json.node.arrays(found.rows),
        ]
        return Split(pa.RecordBatch.from_arrays(arrays, schema=self._schema), rejects)

    def _read_json(self, batch: pa.RecordBatch, found: _Found) -> None:
        types = batch.column("content_type").to_pylist()
        for index, body in enumerate(batch.column("data").to_pylist()):
            if not is_json(types[index]):
                found.keep(index, body)
                continue
            try:
                decoded = self._json.row(body or b"")
            except Undecodable as error:
                found.reject(index, error.reason)
                continue
            if decoded.value is not None:
                self._odd(decoded.value)
            found.add(index, body, decoded)

    def _read_avro(self, batch: pa.RecordBatch, found: _Found) -> None:
        columns = (
            batch.column(name).to_pylist()
            for name in ("data", "topic", "content_type", "attributes", "publish_time")
        )
        for index, (body, topic, content_type, attributes, published) in enumerate(
            zip(*columns, strict=True)
        ):
            if essence(content_type) not in AVRO_TYPES and not is_json(content_type):
                found.keep(index, body)
                continue
            try:
                value = self._avro[topic].value(
                    body or b"", content_type or "", dict(attributes or ()), published
                )
                if not isinstance(value, dict):
                    raise Undecodable("not-an-object")
            except Undecodable as error:
                found.reject(index, error.reason)
                continue
            self._odd(value)
            row, is_whole = self._json.node.fit(value)
            found.add(index, body, Decoded(row, is_whole), None if is_whole else as_text(value))


class _Found:
    """The rows and rejects of one batch; lists are parallel, `rejected` and `reasons` to each
    other.
    """

    def __init__(self, empty: Any) -> None:
        self._empty = empty
        self.kept: list[int] = []
        self.data: list[bytes | None] = []
        self.rows: list[Any] = []
        self.rescued: list[str | None] = []
        self.rejected: list[int] = []
        self.reasons: list[str] = []

    def keep(self, index: int, body: bytes | None) -> None:
        """Keep a message of a format that is not for columns."""
        self._add(index, body, self._empty, None)

    def add(
        self, index: int, body: bytes | None, decoded: Decoded, text: str | None = None
    ) -> None:
        """Add a row; `text` is the body for people if the body itself is binary, which is then kept
        too.
        """
        rescued = None
        if not decoded.is_whole:
            rescued = text if text is not None else (body or b"").decode()
        self._add(index, None if text is None else body, decoded.row, rescued)

    def reject(self, index: int, reason: str) -> None:
        self.rejected.append(index)
        self.reasons.append(reason)

    def _add(self, index: int, data: bytes | None, row: Any, rescued: str | None) -> None:
        self.kept.append(index)
        self.data.append(data)
        self.rows.append(row)
        self.rescued.append(rescued)


def _envelope(batch: pa.RecordBatch) -> list[pa.Array]:
    return [batch.column(field.name).cast(field.type) for field in ENVELOPE]


def no_rejects() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=REJECTS)
