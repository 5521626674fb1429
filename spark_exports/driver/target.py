"""What a run needs of a table, be it Iceberg's or plain files."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from spark_exports.lake.commit import Commit, Committed
from spark_exports.lake.files import FileWriter
from spark_exports.order import LaneKey, TableState


class Target(Protocol):
    """As `lake.table.LakeTable` tells."""

    @property
    def positions(self) -> dict[LaneKey, int]: ...

    @property
    def last_run(self) -> int: ...

    @property
    def state(self) -> TableState: ...

    @property
    def columns(self) -> pa.Schema: ...

    def evolve(self, columns: pa.Schema) -> pa.Schema: ...

    def writer(self, run: int, attempt: int) -> FileWriter: ...

    def commit(self, commit: Commit) -> Committed: ...
