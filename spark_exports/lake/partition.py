"""The partition of a row.

The values are those of PyIceberg's own transforms. They are asked once for each distinct key and
once for each hour or day of a batch. The hour of a row is computed here by integer arithmetic, and
the transform of a row of that hour must give the same, or nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform

Values = tuple[int | None, ...]
"""Values of a partition, one for each field of the spec, as Iceberg stores them.

They are hours or days since 1970, or numbers of buckets.
"""

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US


class Partitioner:
    """A splitter of batches by partition; rows keep their order."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self._fields = [
            (schema.find_field(field.source_id).name, _values_of(field, schema))
            for field in spec.fields
        ]

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[Values, pa.RecordBatch]]:
        """Yield the parts that are not empty."""
        if batch.num_rows == 0:
            return
        columns = [values(batch.column(name)) for name, values in self._fields]
        codes = [column.dictionary_encode(null_encoding="encode") for column in columns]
        if all(len(code.dictionary) == 1 for code in codes):
            yield tuple(column[0].as_py() for column in columns), batch
            return
        combined = codes[0].indices.cast(pa.int64())
        for code in codes[1:]:
            combined = pc.add(
                pc.multiply(combined, len(code.dictionary)), code.indices.cast(pa.int64())
            )
        # A stable sort, so that rows of one partition keep their order.
        order = pc.sort_indices(combined)
        start = 0
        for count in pc.value_counts(combined.take(order)).field("counts").to_pylist():
            rows = order.slice(start, count)
            first = rows[0].as_py()
            yield tuple(column[first].as_py() for column in columns), batch.take(rows)
            start += count


def _values_of(field: PartitionField, schema: Schema) -> Callable[[pa.Array], pa.Array]:
    transform = field.transform.transform(schema.find_field(field.source_id).field_type)
    match field.transform:
        case HourTransform():
            return lambda times: _periods(times, HOUR_US, transform)
        case DayTransform():
            return lambda times: _periods(times, DAY_US, transform)
        case BucketTransform():
            return lambda keys: _buckets(keys, transform)
    raise ValueError(f"no export partitions by {field.transform}")


def _periods(times: pa.Array, period_us: int, transform: Callable[[Any], Any]) -> pa.Array:
    micros = times.cast(pa.int64())
    # Arrow's division rounds towards zero, but times before 1970 must be rounded down.
    quotient = pc.divide(micros, period_us)
    below = pc.less(pc.subtract(micros, pc.multiply(quotient, period_us)), 0)
    periods = pc.subtract(quotient, below.cast(pa.int64()))
    for period in pc.unique(periods).to_pylist():
        if period is not None and transform(period * period_us) != period:
            raise ValueError(f"Iceberg has {transform(period * period_us)} for period {period}")
    return periods


def _buckets(keys: pa.Array, transform: Callable[[Any], Any]) -> pa.Array:
    coded = keys.dictionary_encode()
    buckets = pa.array([transform(key) for key in coded.dictionary.to_pylist()], pa.int64())
    return buckets.take(coded.indices)
