"""A process dies before each of its effects on the outside; the next process goes on.

Only the effects that others can see count: files made durable, files deleted, statements committed.
The process is killed before the n-th of these (nothing it does later has any effect, not even
cleaning up), for every n until it comes to its end unharmed. Then another attempt does the run
again, and the table has each row once, and no file too many after cleaning up.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from packetboat.models.export_runs import LaneRange
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy.engine.default import DefaultDialect

from harness.export_specs import maintenance
from spark_exports.lake import storage
from spark_exports.lake.commit import Commit
from spark_exports.lake.lake import Lake
from spark_exports.lake.maintenance import compact, expire_snapshots, remove_orphans
from spark_exports.lake.table import LakeTable
from tests.unit.spark_exports.lake.lake_support import (
    BY_DAY,
    COLUMNS,
    KEY,
    OTHER,
    batch,
    files_below,
    files_named,
    local_lake,
    message,
    of_lane,
    rows,
    write,
)

LATER_S = 4e9
WIDER = pa.schema([*COLUMNS, ("new", pa.string())])


class Killed(BaseException):
    """A kill like SIGKILL: no code may catch it."""


class Death:
    """A kill before the n-th effect; 0 means never."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.left = 0
        self.dead = False

    def step(self) -> None:
        with self._lock:
            if self.left:
                self.left -= 1
                self.dead = self.left == 0
            if self.dead:
                raise Killed


@pytest.fixture
def death(monkeypatch: pytest.MonkeyPatch) -> Death:
    death = Death()

    def stepping(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **more: object) -> object:
            death.step()
            return real(*args, **more)

        return call

    monkeypatch.setattr(storage._DurableStream, "close", stepping(storage._DurableStream.close))
    monkeypatch.setattr(PyArrowFileIO, "delete", stepping(PyArrowFileIO.delete))
    monkeypatch.setattr(DefaultDialect, "do_commit", stepping(DefaultDialect.do_commit))
    return death


def export(lake: Lake, run: int, attempt: int, end: int) -> None:
    """Carry out a run as a driver does."""
    table = lake.open("acme", "orders", COLUMNS, BY_DAY)
    if run > 1:
        table.evolve(WIDER)
    ranges = [
        LaneRange(key, table.positions.get(key, 0), end)
        for key in (KEY, OTHER)
        if table.positions.get(key, 0) < end
    ]
    if ranges:
        table.commit(Commit(run, attempt, ranges, _files(table, run, attempt, ranges)))


def backfill(lake: Lake, run: int, attempt: int) -> None:
    table = lake.open("acme", "orders", COLUMNS, BY_DAY)
    ranges = [LaneRange(KEY, 10, 40)]
    files = _files(table, run, attempt, ranges)
    table.commit(Commit(run, attempt, ranges, files, replace=True))


def maintain(lake: Lake, run: int, attempt: int) -> None:
    table = lake.find("acme", "orders")
    assert table is not None
    compact(table, maintenance(), run, attempt, now_s=LATER_S)
    clean_up(table, run, attempt)


def clean_up(table: LakeTable, run: int, attempt: int) -> None:
    expire_snapshots(table, maintenance(keep_snapshots_s=0), now_s=LATER_S)
    remove_orphans(table, maintenance(orphans_after_s=0), run, attempt, now_s=LATER_S)


def _files(table: LakeTable, run: int, attempt: int, ranges: list[LaneRange]) -> list[object]:
    """Write the files of each range in a task of its own."""
    return [
        file
        for each in ranges
        for file in write(
            table.writer(run, attempt),
            batch(message(offset, each.key) for offset in range(each.start, each.end)),
        )
    ]


SCENARIOS: dict[str, tuple[list[Callable[[Lake], None]], Callable[[Lake, int], None], int]] = {
    "first": ([], lambda lake, attempt: export(lake, 1, attempt, 30), 30),
    "next": (
        [lambda lake: export(lake, 1, 1, 30)],
        lambda lake, attempt: export(lake, 2, attempt, 50),
        50,
    ),
    "backfill": (
        [lambda lake: export(lake, 1, 1, 50)],
        lambda lake, attempt: backfill(lake, 2, attempt),
        50,
    ),
    "maintain": (
        [lambda lake: export(lake, 1, 1, 20), lambda lake: export(lake, 2, 1, 50)],
        lambda lake, attempt: maintain(lake, 3, attempt),
        50,
    ),
}


@contextmanager
def restored(directory: Path, backup: Path) -> Iterator[None]:
    yield
    shutil.rmtree(directory)
    shutil.copytree(backup, directory)


@pytest.mark.parametrize("name", SCENARIOS)
def test_who_dies_at_any_step_is_followed_by_one_who_ends_it(
    tmp_path: Path, death: Death, name: str
) -> None:
    before, scenario, end = SCENARIOS[name]
    home, backup = tmp_path / "home", tmp_path / "backup"
    home.mkdir()
    for step in before:
        with local_lake(home) as lake:
            step(lake)
    shutil.copytree(home, backup)
    steps = 0
    survived = False
    while not survived:
        steps += 1
        with restored(home, backup):
            survived = _attempt(home, death, scenario, steps)
            with local_lake(home) as lake:
                scenario(lake, 2)
                table = lake.find("acme", "orders")
                assert table is not None
                assert rows(table) == [*of_lane(0, end), *of_lane(0, end, OTHER)], steps
                assert table.positions == {KEY: end, OTHER: end}
                clean_up(table, 9, 1)
                assert rows(table) == [*of_lane(0, end), *of_lane(0, end, OTHER)], steps
                assert files_below(home) == files_named(table), steps
    # The scenario has steps, and all of them were tried.
    assert steps > 5


def _attempt(home: Path, death: Death, scenario: Callable[[Lake, int], None], steps: int) -> bool:
    death.left, death.dead = steps, False
    try:
        with local_lake(home) as lake:
            scenario(lake, 1)
        return True
    except Killed:
        return False
    finally:
        death.left, death.dead = 0, False
