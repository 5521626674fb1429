"""Plain Parquet files, for users without a catalog.

    <warehouse>/<tenant>/<table>/publish_day=2026-11-23/run-7-1-….parquet
    <warehouse>/<tenant>/<table>/_manifests/run-7.json

Rows are delivered **at least once**, unlike in tables: the files of a run and the run's position on
the server are not one commit. A run that dies between them writes its rows again under another
number, and a back-fill adds its rows to those that are there. Files that a manifest names are
complete and durable, and no file is named twice: a reader of only those sees no partial runs and no
leftovers of attempts. A manifest is written last, as a whole; of two attempts of a run, the
manifest that was there first stays.
"""

from __future__ import annotations

import re
import secrets

import msgspec
import pyarrow as pa
from packetboat.models.export_runs import LaneKey, LaneRange
from packetboat.models.exports import ExportTable
from pyiceberg.schema import Schema

from spark_exports.lake.columns import arrow_columns, grown, new_schema
from spark_exports.lake.commit import Commit, Committed
from spark_exports.lake.destination import Destination
from spark_exports.lake.errors import ConflictingColumn
from spark_exports.lake.files import FileWriter
from spark_exports.lake.layout import Layout
from spark_exports.lake.storage import (
    LakeFileIO,
    delete_files,
    list_files,
    storage_properties,
    table_location,
    write_whole,
)
from spark_exports.lake.table import TARGET_FILE_BYTES
from spark_exports.order import LakeSettings

_MANIFEST = re.compile(r"/run-(\d+)\.json$")


class PlainFile(msgspec.Struct, frozen=True):
    """A file of a run; `path` is below the table's directory."""

    path: str
    rows: int
    file_bytes: int


class PlainManifest(msgspec.Struct, frozen=True):
    """The files that a run wrote; `schema` is Iceberg's JSON of the columns after the run."""

    run: int
    attempt: int
    ranges: list[LaneRange]
    files: list[PlainFile]
    backfill: bool
    schema: msgspec.Raw
    counts: dict[str, int] = {}


class PlainFiles:
    """A directory of plain files, used like a LakeTable. Storage errors are OSError."""

    def __init__(
        self, settings: LakeSettings, tenant: str, table: str, columns: pa.Schema, layout: Layout
    ) -> None:
        self._name = f"{tenant}.{table}"
        self._location = table_location(settings, tenant, table)
        self._storage = storage_properties(settings.storage)
        self._io = LakeFileIO(dict(self._storage))
        self._layout = layout
        self._token = secrets.token_hex(4)
        self._schema = new_schema(pa.schema([]))
        self.last_run = 0
        self.refresh()
        if not self.last_run:
            self.evolve(columns)

    def refresh(self) -> None:
        """Read the last manifest again; columns that `evolve` added since then are dropped."""
        numbers = [
            int(found[1])
            for file in list_files(self._io, f"{self._location}/_manifests")
            if (found := _MANIFEST.search(file.location))
        ]
        self.last_run = max(numbers, default=0)
        if self.last_run:
            manifest = self.manifest(self.last_run)
            assert manifest is not None
            self._schema = Schema.model_validate_json(bytes(manifest.schema))

    @property
    def positions(self) -> dict[LaneKey, int]:
        """An empty mapping, since only the server has the positions."""
        return {}

    @property
    def state(self) -> ExportTable:
        return ExportTable(self._name, self._location, None, None)

    @property
    def columns(self) -> pa.Schema:
        return arrow_columns(self._schema)

    def evolve(self, columns: pa.Schema) -> pa.Schema:
        """Add columns and widen types, as for a table; earlier files keep the columns they have."""
        after, conflicts = grown(self.columns, columns)
        if conflicts:
            raise ConflictingColumn(conflicts)
        self._schema = new_schema(after)
        return self.columns

    def writer(
        self, run: int, attempt: int, target_file_bytes: int = TARGET_FILE_BYTES
    ) -> FileWriter:
        """Return a writer of files with the current columns."""
        to = Destination(
            directory=self._location,
            storage=self._storage,
            schema=self._schema.model_dump_json(),
            spec=self._layout.spec(self._schema).model_dump_json(),
            properties={},
            target_file_bytes=target_file_bytes,
            partition_paths=True,
            prefix=f"run-{run}-{attempt}-{self._token}-",
        )
        return FileWriter(to)

    def manifest(self, run: int) -> PlainManifest | None:
        """Return the manifest of a run, or None if the run is not complete."""
        try:
            with self._io.new_input(self._manifest_location(run)).open() as stream:
                return msgspec.json.decode(stream.read(), type=PlainManifest)
        except FileNotFoundError:
            return None

    def counts_of(self, run: int) -> dict[str, int]:
        """Return the counts of a run; empty if it has no manifest."""
        manifest = self.manifest(run)
        return {} if manifest is None else manifest.counts

    def commit(self, commit: Commit) -> Committed:
        """Write the run's manifest, if no other attempt has."""
        before = self.manifest(commit.run)
        if before is not None:
            theirs = {self._absolute(file.path) for file in before.files}
            delete_files(self._io, {file.location for file in commit.files} - theirs)
            return Committed(True, self.state, {})
        manifest = PlainManifest(
            run=commit.run,
            attempt=commit.attempt,
            ranges=commit.ranges,
            files=[
                PlainFile(
                    file.location.removeprefix(self._absolute("")), file.rows, file.file_bytes
                )
                for file in commit.files
            ],
            backfill=commit.replace,
            schema=msgspec.Raw(self._schema.model_dump_json().encode()),
            counts=commit.counts,
        )
        write_whole(self._io, self._manifest_location(commit.run), msgspec.json.encode(manifest))
        self.last_run = max(self.last_run, commit.run)
        return Committed(False, self.state, {})

    def _absolute(self, path: str) -> str:
        return f"{self._location}/{path}"

    def _manifest_location(self, run: int) -> str:
        return self._absolute(f"_manifests/run-{run}.json")
