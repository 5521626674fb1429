"""The catalog in Postgres: made when missing, lost at the worst moment, away for a while."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packetboat.models.export_runs import LaneRange
from sqlalchemy import create_engine, text
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import OperationalError

from metadata.postgres.embedded import EmbeddedPostgres
from spark_exports.lake import commit as protocol
from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import CatalogUnavailable
from spark_exports.lake.lake import Lake
from spark_exports.order import LakeSettings
from tests.conftest import running_postgres
from tests.integration.lake.conftest import catalog_in
from tests.unit.spark_exports.lake.lake_support import (
    KEY,
    files_below,
    files_named,
    of_lane,
    open_table,
    rows,
    written,
)

RANGES = [LaneRange(KEY, 0, 30)]


def test_the_schema_is_made_by_whoever_comes(postgres_settings: LakeSettings) -> None:
    def connect(_: int) -> None:
        Lake(postgres_settings).close()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(connect, range(6)))
    engine = create_engine(postgres_settings.catalog["uri"])
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT table_name FROM information_schema.tables WHERE table_schema = :schema"),
            {"schema": postgres_settings.catalog["schema"]},
        )
        assert {row[0] for row in found} == {"iceberg_tables", "iceberg_namespace_properties"}
    engine.dispose()


class CutAtCommit:
    """The connection is lost at the n-th COMMIT, before the server got it or after it was done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, done: bool, times: int = 1) -> None:
        self.left = times
        real = PGDialect_psycopg.do_commit

        def do_commit(dialect: PGDialect_psycopg, connection: object) -> None:
            if self.left == 0:
                real(dialect, connection)  # type: ignore[arg-type]
                return
            self.left -= 1
            if done:
                real(dialect, connection)  # type: ignore[arg-type]
            connection.close()  # type: ignore[attr-defined]
            raise OperationalError("COMMIT", {}, Exception("the connection is lost"))

        monkeypatch.setattr(PGDialect_psycopg, "do_commit", do_commit)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_a_connection_that_is_cut_at_commit(
    postgres_settings: LakeSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    done: bool,
    times: int,
) -> None:
    with Lake(postgres_settings) as lake:
        table = open_table(lake)
        files = written(table, 1, RANGES)
        cut = CutAtCommit(monkeypatch, done=done, times=times)
        assert not table.commit(Commit(1, 1, RANGES, files)).already
        assert cut.left == (times - 1 if done else 0)
        assert rows(table) == of_lane(0, 30)
        assert files_below(tmp_path) == files_named(table)
        assert len(table.iceberg.snapshots()) == 1


def test_a_catalog_that_goes_away_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_WAITS_S", (0.01, 0.01, 0.01))
    with running_postgres() as server:
        settings = LakeSettings("default", str(tmp_path / "lake"), catalog_in(server.url))
        with Lake(settings) as lake:
            table = open_table(lake)
            files = written(table, 1, RANGES)
            stop_at_commit(server, monkeypatch)
            with pytest.raises(CatalogUnavailable):
                table.commit(Commit(1, 1, RANGES, files))
            with pytest.raises(CatalogUnavailable):
                lake.find("acme", "orders")
            monkeypatch.undo()
            server.start()
            # The pool checks its connections: the same lake goes on.
            again = open_table(lake)
            assert not again.commit(Commit(1, 2, RANGES, written(again, 1, RANGES, 2))).already
            assert rows(again) == of_lane(0, 30)


def stop_at_commit(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., None] = PGDialect_psycopg.do_commit

    def do_commit(dialect: PGDialect_psycopg, connection: object) -> None:
        server.stop()
        real(dialect, connection)

    monkeypatch.setattr(PGDialect_psycopg, "do_commit", do_commit)
