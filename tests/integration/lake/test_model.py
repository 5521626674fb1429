"""A table against a dict of offsets, whatever happens in whatever order.

Writers are prepared and commit later, if at all; answers of commits get lost, before or after the
commit was done; back-fills and upkeep come in between. After each step the table has exactly the
rows of the model.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from packetboat.models.export_runs import LaneKey, LaneRange
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.exc import OperationalError

from harness.export_specs import maintenance
from spark_exports.lake import commit as protocol
from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import Superseded
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.live import data_locations
from spark_exports.lake.maintenance import compact, expire_snapshots, remove_orphans
from spark_exports.lake.table import LakeTable
from tests.unit.spark_exports.lake.lake_support import (
    KEY,
    OTHER,
    files_below,
    local_settings,
    open_table,
    rows,
    written,
)

LATER_S = 4e9
KEYS = st.sampled_from([KEY, OTHER])


class Tables(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(protocol, "_WAITS_S", (0.001,) * 5)
        self.lake = Lake(local_settings(self.directory))
        self.layout = Layout("day")
        self.table = open_table(self.lake, self.layout)
        self.offsets: dict[LaneKey, set[int]] = {KEY: set(), OTHER: set()}
        self.positions: dict[LaneKey, int] = {}
        self.run = 0
        self.committed_run = 0
        self.pending: list[tuple[LakeTable, Commit]] = []

    def teardown(self) -> None:
        self.patch.undo()
        self.lake.close()
        shutil.rmtree(self.directory)

    @rule(key=KEYS, count=st.integers(0, 30), same_run=st.booleans())
    def prepare(self, key: LaneKey, count: int, same_run: bool) -> None:
        """Another attempt of the last run, or the next run, reads on from the table."""
        self.run += not (same_run and self.run)
        table = open_table(self.lake, self.layout)
        start = table.positions.get(key, 0)
        ranges = [LaneRange(key, start, start + count)]
        files = written(table, self.run, ranges)
        self.pending.append((table, Commit(self.run, 1, ranges, files)))

    @precondition(lambda self: self.positions)
    @rule(data=st.data())
    def prepare_backfill(self, data: st.DataObject) -> None:
        self.run += 1
        key = data.draw(st.sampled_from(sorted(self.positions)))
        start = data.draw(st.integers(0, self.positions[key]))
        ranges = [LaneRange(key, start, start + data.draw(st.integers(0, 20)))]
        table = open_table(self.lake, self.layout)
        files = written(table, self.run, ranges)
        self.pending.append((table, Commit(self.run, 1, ranges, files, replace=True)))

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), lost=st.sampled_from(["no", "before", "after"]), keep=st.booleans())
    def commit(self, data: st.DataObject, lost: str, keep: bool) -> None:
        """`keep`: it will try again later, as a zombie does."""
        number = data.draw(st.integers(0, len(self.pending) - 1))
        table, commit = self.pending[number]
        if not keep:
            del self.pending[number]
        (wanted,) = commit.ranges
        with pytest.MonkeyPatch.context() as patch:
            if lost != "no":
                _lose_an_answer(patch, done=lost == "after")
            try:
                already = table.commit(commit).already
            except Superseded:
                assert not self._fits(commit)
                return
            except protocol.AheadOfTable:
                assert commit.replace
                return
        if already:
            assert self.committed_run >= commit.run
            return
        assert self._fits(commit)
        offsets = set(range(wanted.start, wanted.end))
        if commit.replace:
            self.offsets[wanted.key] |= offsets
        else:
            assert self.offsets[wanted.key].isdisjoint(offsets)
            self.offsets[wanted.key] |= offsets
        self.positions[wanted.key] = max(wanted.end, self.positions.get(wanted.key, 0))
        self.committed_run = commit.run
        if keep:
            # Its files are the table's now, and go when upkeep replaces them.
            self.pending.remove((table, commit))

    def _fits(self, commit: Commit) -> bool:
        (wanted,) = commit.ranges
        position = self.positions.get(wanted.key)
        if self.committed_run > commit.run:
            return False
        return commit.replace or position is None or position == wanted.start

    @rule(kind=st.sampled_from(["compact", "expire", "orphans"]))
    def maintain(self, kind: str) -> None:
        self.run += 1
        table = open_table(self.lake, self.layout)
        if kind == "compact":
            compact(table, maintenance(), self.run, 1, now_s=LATER_S)
        elif kind == "expire":
            expire_snapshots(table, maintenance(keep_snapshots_s=0), now_s=LATER_S)
        else:
            remove_orphans(table, maintenance(orphans_after_s=0), self.run, 1, now_s=LATER_S)
            assert files_below(self.directory) == data_locations(table.iceberg)
        self.table.refresh()
        self.committed_run = self.table.last_run

    @invariant()
    def the_table_is_the_model(self) -> None:
        assert rows(self.table) == sorted(
            (key.topic, key.partition, key.lane, offset)
            for key, offsets in self.offsets.items()
            for offset in offsets
        )
        assert self.table.positions == self.positions
        assert self.table.last_run == self.committed_run


def _lose_an_answer(patch: pytest.MonkeyPatch, *, done: bool) -> None:
    real = DefaultDialect.do_commit
    lost = False

    def do_commit(dialect: DefaultDialect, connection: object) -> None:
        nonlocal lost
        if done or lost:
            real(dialect, connection)  # type: ignore[arg-type]
        if not lost:
            lost = True
            raise OperationalError("COMMIT", {}, Exception("lost"))

    patch.setattr(DefaultDialect, "do_commit", do_commit)


TestTables = Tables.TestCase
TestTables.settings = settings(
    max_examples=15,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
