"""Files come out as one sequence, in order."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from packetboat.models.export_runs import LaneKey

from spark_exports.lake.columns import arrow_columns
from spark_exports.lake.files import FileWriter
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.merging import merged
from spark_exports.lake.storage import LakeFileIO
from tests.unit.spark_exports.lake.lake_support import (
    batch,
    lane,
    local_lake,
    message,
    open_table,
    write,
)

ROWS = st.tuples(
    st.sampled_from(["orders", "refunds"]), st.integers(0, 1), st.integers(0, 1), st.integers(0, 30)
)
ROW_GROUPS = st.lists(ROWS, min_size=1, max_size=6)
FILES = st.lists(st.lists(ROW_GROUPS, min_size=1, max_size=4), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(FILES)
def test_rows_of_files_in_any_order_come_in_order(
    contents: list[list[list[tuple[str, int, int, int]]]],
) -> None:
    with tempfile.TemporaryDirectory() as directory, local_lake(Path(directory)) as lake:
        table = open_table(lake, Layout("none"))
        to = msgspec.structs.replace(table.writer(1, 1).destination, row_group_bytes=1)
        locations = []
        for groups in contents:
            batches = [
                batch(message(key[3], LaneKey(key[0], "", key[1], key[2])) for key in group)
                for group in groups
            ]
            locations += [file.location for file in write(FileWriter(to), *batches)]
        columns = arrow_columns(table.iceberg.schema(), ids=True)
        found = [
            key
            for part in merged(LakeFileIO(), locations, columns)
            for key in zip(
                *(part[name].to_pylist() for name in ("topic", "partition", "lane", "offset")),
                strict=True,
            )
        ]
        assert found == sorted(itertools.chain.from_iterable(itertools.chain(*contents)))


def test_stretches_are_copied_whole(lake: Lake) -> None:
    table = open_table(lake, Layout("none"))
    files = [
        file
        for start in (200, 0, 100)
        for file in write(table.writer(1, 1), lane(start, start + 100))
    ]
    columns = arrow_columns(table.iceberg.schema(), ids=True)
    parts = list(merged(LakeFileIO(), [file.location for file in files], columns))
    assert [part.num_rows for part in parts] == [100, 100, 100]
