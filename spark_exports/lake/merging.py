"""Joining of files in order of topic, partition, lane and offset.

A file has a few sorted sequences of row groups, nearly always one. They are merged: from the
sequence that begins lowest come all rows up to the beginning of the next one, and so on. Rows of a
lane are mostly in one file for a stretch of offsets. Therefore long parts are copied at once, and
memory holds one row group of each sequence that overlaps others.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import PyArrowFileIO

from spark_exports.lake.envelope import ORDER
from spark_exports.lake.reading import DataReader

Key = tuple[str, int, int, int]
_SORT_KEYS = [(name, "ascending") for name in ORDER]


class _Group(msgspec.Struct, frozen=True):
    """A row group and the keys of its rows."""

    number: int
    is_sorted: bool
    first: Key
    last: Key


def merged(
    file_io: PyArrowFileIO, locations: Sequence[str], columns: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the files, in order. Raises ForeignFile."""
    sequences = [
        sequence for location in locations for sequence in _sequences(file_io, location, columns)
    ]
    # The number decides between equal keys, since sequences cannot be compared.
    heads = [(sequence.head, number) for number, sequence in enumerate(sequences)]
    heapq.heapify(heads)
    try:
        while heads:
            _, number = heapq.heappop(heads)
            yield from sequences[number].up_to(heads[0][0] if heads else None)
            if not sequences[number].over:
                heapq.heappush(heads, (sequences[number].head, number))
    finally:
        for sequence in sequences:
            sequence.close()


def _sequences(file_io: PyArrowFileIO, location: str, columns: pa.Schema) -> list[_Sequence]:
    with DataReader(file_io, location, columns) as reader:
        groups = [
            _described(number, reader.row_group(number, ORDER))
            for number in range(reader.row_groups)
        ]
    chains: list[list[_Group]] = []
    for group in groups:
        if chains and chains[-1][-1].last <= group.first:
            chains[-1].append(group)
        else:
            chains.append([group])
    return [_Sequence(file_io, location, columns, chain) for chain in chains]


def _described(number: int, keys: pa.Table) -> _Group:
    is_sorted = _is_sorted(keys)
    if not is_sorted:
        keys = keys.sort_by(_SORT_KEYS)
    return _Group(number, is_sorted, _key(keys, 0), _key(keys, keys.num_rows - 1))


def _is_sorted(keys: pa.Table) -> bool:
    if keys.num_rows < 2:
        return True
    rising: pa.ChunkedArray | bool = True
    for name in reversed(ORDER):
        column = keys.column(name)
        before, after = column.slice(0, keys.num_rows - 1), column.slice(1)
        rising = pc.or_(pc.less(before, after), pc.and_(pc.equal(before, after), rising))
    return bool(pc.all(rising).as_py())


def _key(rows: pa.Table, number: int) -> Key:
    topic, partition, lane, offset = (rows.column(name)[number].as_py() for name in ORDER)
    return topic, partition, lane, offset


class _Sequence:
    """A sequence of sorted row groups of a file, which is open from the first wanted row to the
    last.
    """

    def __init__(
        self, file_io: PyArrowFileIO, location: str, columns: pa.Schema, groups: list[_Group]
    ) -> None:
        self._io = file_io
        self._location = location
        self._columns = columns
        # the next group is the last of the list
        self._groups = groups[::-1]
        self._reader: DataReader | None = None
        self._rows: pa.Table | None = None
        self._at = 0

    @property
    def over(self) -> bool:
        return self._rows is None and not self._groups

    @property
    def head(self) -> Key:
        """Key of the next row."""
        return self._groups[-1].first if self._rows is None else _key(self._rows, self._at)

    def up_to(self, limit: Key | None) -> Iterator[pa.RecordBatch]:
        """Yield the next rows, with keys not above the limit."""
        while not self.over and (limit is None or self.head <= limit):
            rows = self._rows
            if rows is None:
                rows = self._load()
            end = rows.num_rows
            if limit is not None:
                end = bisect.bisect_right(
                    range(end), limit, lo=self._at, key=lambda number: _key(rows, number)
                )
            yield from rows.slice(self._at, end - self._at).to_batches()
            self._at = end
            if end == rows.num_rows:
                self._rows = None
                if not self._groups:
                    self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _load(self) -> pa.Table:
        if self._reader is None:
            self._reader = DataReader(self._io, self._location, self._columns)
        group = self._groups.pop()
        rows = self._reader.row_group(group.number)
        self._rows = rows if group.is_sorted else rows.sort_by(_SORT_KEYS)
        self._at = 0
        return self._rows
