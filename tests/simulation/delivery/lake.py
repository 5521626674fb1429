"""A lake is a catalog that compares before it swaps, and a place for files.

The product's protocol of commits (`spark_exports.lake`) runs unchanged. `SimulatedTable` stands
where PyIceberg's table does. Files hold rows of the log instead of Parquet. Until all is calm the
catalog is away at times, takes long, and loses the answers of commits, done and not done.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest import mock

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from metadata.exports import run_machine
from spark_exports.lake import commit
from spark_exports.lake.errors import CatalogUnavailable
from spark_exports.lake.table import LakeTable

BACK_OFF_S = 0.3
"""A run waits this long for its second attempt. No setting names it, so it is as small as a run of
the simulation asks for."""
AWAY = 0.03
LOST = 0.1
LONG = 0.1
LONG_S = (0.5, 3.0)
SHORT_S = (0.001, 0.05)


class Row(NamedTuple):
    """A message of the log."""

    partition: int
    offset: int
    payload: str


@dataclass(frozen=True, slots=True)
class _State:
    """The table after a commit."""

    files: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    snapshots: tuple[Any, ...] = ()


class Lake:
    """One table, and the files that were written for it."""

    def __init__(self, dice: Random) -> None:
        self.calm = False
        self.lost_done = 0
        """The number of commits that were done, and whose answers were lost."""
        self.files: dict[str, tuple[Row, ...]] = {}
        self._dice = dice
        self._state = _State()

    def open(self) -> LakeTable:
        """Open the table as one attempt of a run does."""
        return LakeTable(cast(Table, SimulatedTable(self)))

    def rows(self) -> list[Row]:
        """Return what a reader of the table sees now. Raises KeyError if a file is gone."""
        return [row for name in self._state.files for row in self.files[name]]

    def load(self) -> _State:
        self._takes_a_while()
        if not self.calm and self._dice.random() < AWAY:
            raise CatalogUnavailable("the catalog is away")
        state = self._state
        self._takes_a_while()
        return state

    def swap(self, seen: _State, new: _State) -> None:
        """Make `new` the table if it is as it was seen. Raises CommitFailedException if it is not,
        and CatalogUnavailable if nobody knows."""
        self._takes_a_while()
        lost = not self.calm and self._dice.random() < LOST
        if lost and self._dice.random() < 0.5:
            raise CatalogUnavailable("the commit was lost")
        if self._state is not seen:
            raise CommitFailedException("the table has changed")
        self._state = new
        if lost:
            self.lost_done += 1
            raise CatalogUnavailable("the answer was lost")
        self._takes_a_while()

    def _takes_a_while(self) -> None:
        is_long = not self.calm and self._dice.random() < LONG
        time.sleep(self._dice.uniform(*(LONG_S if is_long else SHORT_S)))


class SimulatedTable:
    """The product uses these members of `pyiceberg.table.Table`. They tell of the last `refresh` or
    commit."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.catalog = lake
        self.io = SimpleNamespace(properties={"lake": lake})
        self.state = _State()
        self.metadata_location = "lake/metadata"

    @property
    def properties(self) -> Mapping[str, str]:
        return self.state.properties

    def refresh(self) -> None:
        self.state = self.lake.load()

    def name(self) -> tuple[str, str]:
        return "simulated", "exported"

    def location(self) -> str:
        return "lake"

    def spec(self) -> Any:
        return SimpleNamespace(spec_id=0)

    def snapshots(self) -> tuple[Any, ...]:
        return self.state.snapshots

    def current_snapshot(self) -> Any:
        return self.state.snapshots[-1] if self.state.snapshots else None

    def transaction(self) -> _Transaction:
        return _Transaction(self)


class _Transaction:
    """An append, in the calls that PyIceberg has for it."""

    def __init__(self, table: SimulatedTable) -> None:
        self._table = table
        self._properties: dict[str, str] = {}
        self._summary: Mapping[str, str] = {}
        self._added: list[str] = []

    def set_properties(self, properties: Mapping[str, str]) -> None:
        self._properties |= properties

    def update_snapshot(self, summary: Mapping[str, str]) -> _Transaction:
        self._summary = summary
        return self

    @contextmanager
    def merge_append(self) -> Iterator[_Transaction]:
        yield self

    def append_data_file(self, file: DataFile) -> None:
        self._added.append(file.file_path)

    def commit_transaction(self) -> None:
        table, seen = self._table, self._table.state
        number = len(seen.snapshots) + 1
        snapshot = SimpleNamespace(
            snapshot_id=number,
            summary=SimpleNamespace(additional_properties=self._summary),
            manifests=lambda _: [_Manifest(f"manifest-{number}", tuple(self._added))],
        )
        new = _State(
            (*seen.files, *self._added),
            {**seen.properties, **self._properties},
            (*seen.snapshots, snapshot),
        )
        table.lake.swap(seen, new)
        table.state = new


class _Manifest(NamedTuple):
    manifest_path: str
    files: tuple[str, ...]

    def fetch_manifest_entry(self, _: object, *, discard_deleted: bool) -> Iterator[Any]:
        assert discard_deleted
        for name in self.files:
            yield SimpleNamespace(data_file=SimpleNamespace(file_path=name))


def _delete(lake: Lake, locations: Iterable[str]) -> None:
    for location in sorted(locations):
        lake.files.pop(location, None)


@contextmanager
def installed() -> Iterator[None]:
    """Have commits delete files of the simulated lake, and have runs tried again soon."""
    with (
        mock.patch.object(commit, "LakeFileIO", lambda properties: properties["lake"]),
        mock.patch.object(commit, "delete_files", _delete),
        mock.patch.object(run_machine, "MIN_BACKOFF_S", BACK_OFF_S),
    ):
        yield
