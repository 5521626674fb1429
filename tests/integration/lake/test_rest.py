"""A lake whose catalog is a REST service, by configuration alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from packetboat.models.export_runs import LaneRange

from harness.export_specs import maintenance
from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import CatalogUnavailable
from spark_exports.lake.lake import Lake
from spark_exports.lake.maintenance import compact, expire_snapshots, remove_orphans
from spark_exports.order import LakeSettings
from tests.integration.lake.rest_catalog import RestCatalogServer
from tests.unit.spark_exports.lake.lake_support import (
    KEY,
    files_below,
    files_named,
    of_lane,
    open_table,
    rows,
    written,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestCatalogServer]:
    with RestCatalogServer(tmp_path) as server:
        yield server


@pytest.fixture
def settings(server: RestCatalogServer, tmp_path: Path) -> LakeSettings:
    catalog = {"type": "rest", "uri": server.url, "token": "of-the-operator"}
    return LakeSettings("default", str(tmp_path / "lake"), catalog)


def test_properties_reach_the_service(settings: LakeSettings, server: RestCatalogServer) -> None:
    with Lake(settings) as lake:
        assert lake.find("acme", "orders") is None
    assert server.headers["Authorization"] == "Bearer of-the-operator"
    assert server.asked[0].startswith("GET /v1/config?warehouse=")


def test_a_tables_whole_life(settings: LakeSettings, tmp_path: Path) -> None:
    with Lake(settings) as lake:
        table, other = open_table(lake), open_table(lake)
        for number, at in enumerate(range(0, 60, 20), 1):
            ranges = [LaneRange(KEY, at, at + 20)]
            commit = Commit(number, 1, ranges, written(table, number, ranges))
            assert not table.commit(commit).already
            again = Commit(number, 2, ranges, written(other, number, ranges, 2))
            assert other.commit(again).already
        table.evolve(pa.schema([("new", pa.int64())]))
        again_ranges = [LaneRange(KEY, 10, 30)]
        files = written(table, 4, again_ranges)
        table.commit(Commit(4, 1, again_ranges, files, replace=True))
        compact(table, maintenance(), 5, 1, now_s=4e9)
        expire_snapshots(table, maintenance(keep_snapshots_s=0), now_s=4e9)
        remove_orphans(table, maintenance(orphans_after_s=0), 6, 1, now_s=4e9)
        assert rows(table) == of_lane(0, 60)
        assert files_below(tmp_path) == files_named(table)


def test_an_answer_that_is_lost(
    settings: LakeSettings, server: RestCatalogServer, tmp_path: Path
) -> None:
    with Lake(settings) as lake:
        table = open_table(lake)
        ranges = [LaneRange(KEY, 0, 30)]
        server.lose_answers = 1
        assert not table.commit(Commit(1, 1, ranges, written(table, 1, ranges))).already
        assert server.lose_answers == 0
        assert rows(table) == of_lane(0, 30)
        assert files_below(tmp_path) == files_named(table)
        server.lose_answers = 1
        with pytest.raises(CatalogUnavailable):
            table.evolve(pa.schema([("new", pa.int64())]))
        assert "new" in open_table(lake).evolve(pa.schema([("new", pa.int64())])).names
