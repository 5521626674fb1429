"""Several write what one was to write: attempts of one run, and a run that is long over."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from packetboat.models.export_runs import LaneRange
from pyiceberg.table import Table

from harness.export_specs import maintenance
from spark_exports.lake import commit as protocol
from spark_exports.lake.commit import Commit, Committed
from spark_exports.lake.errors import Superseded
from spark_exports.lake.lake import Lake
from spark_exports.lake.layout import Layout
from spark_exports.lake.maintenance import compact, expire_snapshots, remove_orphans
from spark_exports.lake.transaction import Change
from spark_exports.lake.transaction import put as real_put
from spark_exports.order import LakeSettings
from tests.unit.spark_exports.lake.lake_support import (
    KEY,
    OTHER,
    files_below,
    files_named,
    of_lane,
    open_table,
    rows,
    written,
)

WRITERS = 5
LATER_S = 4e9
UNPARTITIONED = Layout("none")


@pytest.mark.parametrize("replace", [False, True])
def test_attempts_of_one_run_commit_at_the_same_moment(
    postgres_settings: LakeSettings, tmp_path: Path, replace: bool
) -> None:
    with ExitStack() as stack:
        lakes = [stack.enter_context(Lake(postgres_settings)) for _ in range(WRITERS)]
        first = open_table(lakes[0])
        before = [LaneRange(KEY, 0, 20), LaneRange(OTHER, 0, 5)]
        first.commit(Commit(1, 1, before, written(first, 1, before)))
        start = threading.Barrier(WRITERS)
        ranges = (
            [LaneRange(KEY, 10, 30)]
            if replace
            else [LaneRange(KEY, 20, 40), LaneRange(OTHER, 5, 9)]
        )

        def attempt(number: int) -> Committed:
            table = open_table(lakes[number])
            commit = Commit(2, number, ranges, written(table, 2, ranges, number), replace)
            start.wait()
            return table.commit(commit)

        with ThreadPoolExecutor(WRITERS) as pool:
            done = list(pool.map(attempt, range(WRITERS)))

        assert [each.already for each in done].count(False) == 1
        end = 30 if replace else 40
        assert {each.positions[KEY] for each in done} == {end}
        others = of_lane(0, 5 if replace else 9, OTHER)
        assert rows(first) == [*of_lane(0, end), *others]
        expire_snapshots(first, maintenance(keep_snapshots_s=0), now_s=LATER_S)
        remove_orphans(first, maintenance(orphans_after_s=0), 3, 1, now_s=LATER_S)
        assert files_below(tmp_path) == files_named(first)


def test_a_zombie_of_an_earlier_run(postgres_settings: LakeSettings, tmp_path: Path) -> None:
    """The zombie has stopped before its commit; meanwhile others did its run, and more runs
    after it.
    """
    with Lake(postgres_settings) as lake, Lake(postgres_settings) as of_zombie:
        zombie = open_table(of_zombie)
        ranges = [LaneRange(KEY, 0, 20)]
        late = Commit(1, 1, ranges, written(zombie, 1, ranges))
        backfill = Commit(1, 1, [LaneRange(KEY, 5, 10)], [], replace=True)

        table = open_table(lake)
        for number, end in ((2, 20), (3, 30)):
            more = [LaneRange(KEY, table.positions.get(KEY, 0), end)]
            table.commit(Commit(number, 1, more, written(table, number, more)))
        remove_orphans(table, maintenance(), 4, 1)

        done = zombie.commit(late)
        assert done.already
        assert done.positions == {KEY: 30}
        with pytest.raises(Superseded):
            zombie.commit(backfill)
        with pytest.raises(Superseded):
            zombie.commit(Commit(1, 1, [LaneRange(KEY, 0, 40)], []))
        for start in (20, 40):  # of a later run, which was planned for a table that was elsewhere
            with pytest.raises(Superseded):
                table.commit(Commit(4, 1, [LaneRange(KEY, start, 50)], []))
        with pytest.raises(Superseded):
            compact(zombie, maintenance(), 1, 1, now_s=LATER_S)
        with pytest.raises(Superseded):
            remove_orphans(zombie, maintenance(orphans_after_s=0), 1, 1, now_s=LATER_S)
        assert rows(table) == of_lane(0, 30)
        assert files_below(tmp_path) == files_named(table)


def test_others_commit_in_between(
    postgres_settings: LakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone deletes rows by hand: it is not our run, so we look again and try again."""
    with Lake(postgres_settings) as lake:
        table, by_hand = open_table(lake, UNPARTITIONED), open_table(lake, UNPARTITIONED)
        ranges = [LaneRange(KEY, 0, 20)]
        table.commit(Commit(1, 1, ranges, written(table, 1, ranges)))
        tries = 0
        by_hands = itertools.count(1)

        def put(iceberg: Table, change: Change) -> None:
            nonlocal tries
            tries += 1
            if tries < 4:
                by_hand.refresh()
                by_hand.iceberg.delete(f"offset = {next(by_hands)}")
            real_put(iceberg, change)

        monkeypatch.setattr(protocol, "put", put)
        more = [LaneRange(KEY, 20, 30)]
        assert not table.commit(Commit(2, 1, more, written(table, 2, more))).already
        assert tries == 4
        again = [LaneRange(KEY, 10, 22)]
        tries = 0
        files = written(table, 3, again)
        assert not table.commit(Commit(3, 1, again, files, replace=True)).already
        assert tries == 4
        assert rows(table) == [*of_lane(0, 1), *of_lane(7, 30)]
