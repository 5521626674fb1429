"""Record batches of a size that pays.

The server makes one of each batch that was published, and of a topic that is published to message
by message that is one row. Spark has a cost for each batch that comes to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

MAX_ROWS = 10_000
MAX_BYTES = 4 * 1024 * 1024


def recut(
    batches: Iterable[pa.RecordBatch], max_rows: int = MAX_ROWS, max_bytes: int = MAX_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in the same order.

    A batch is complete when it reaches either limit, so it may exceed that of bytes by its last
    piece.
    """
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in _pieces(batches, max_rows):
        if gathered and rows + batch.num_rows > max_rows:
            yield _joined(gathered)
            gathered, rows, size = [], 0, 0
        gathered.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= max_rows or size >= max_bytes:
            yield _joined(gathered)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield _joined(gathered)


def _pieces(batches: Iterable[pa.RecordBatch], max_rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, max_rows):
            yield batch.slice(start, max_rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
