"""The task of a `reconcile` run: it counts messages and sums their digests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark_exports.lake.digest import Tally

TALLY_COLUMNS = "topic string, hour_s long, rows long, digest binary"
"""The columns of `digest.TALLY`, for Spark."""


class TallyTask:
    """A function for `DataFrame.mapInArrow` over messages with the columns of the data source."""

    def __init__(self, seen: Callable[[int, int], None]) -> None:
        self._seen = seen

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total = Tally()
        for batch in batches:
            total.add(batch)
            size_bytes = pc.sum(pc.binary_length(batch.column("data"))).as_py() or 0
            self._seen(batch.num_rows, size_bytes)
        yield total.to_batch()
