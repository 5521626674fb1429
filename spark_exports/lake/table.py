"""A table of a lake, as one attempt of a run sees it."""

from __future__ import annotations

import json
import secrets

import pyarrow as pa
from packetboat.models.export_runs import LaneKey
from packetboat.models.exports import ExportTable
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table

from spark_exports.lake.catalog import reachable
from spark_exports.lake.columns import arrow_columns, grown
from spark_exports.lake.commit import COUNTS, POSITIONS, RUN, Commit, Committed, commit_run
from spark_exports.lake.destination import Destination
from spark_exports.lake.errors import CommitContended, ConflictingColumn, TableGone
from spark_exports.lake.files import FileWriter
from spark_exports.lake.storage import storage_properties

OWNER = "packetboat.export"
TARGET_FILE_BYTES = 128 * 1024 * 1024
_MAX_TRIES = 10


class LakeTable:
    """A table in its state of the last `refresh`, `evolve` or `commit`.

    Any method may raise CatalogUnavailable, and TableGone if the table was dropped or made again
    meanwhile.
    """

    def __init__(self, iceberg: Table) -> None:
        self.iceberg = iceberg
        self._token = secrets.token_hex(4)

    def refresh(self) -> None:
        name = ".".join(self.iceberg.name())
        with reachable():
            try:
                self.iceberg.refresh()
            except NoSuchTableError:
                raise TableGone(f"{name} was dropped") from None
            except ValueError as error:
                raise TableGone(f"{name}: {error}") from error

    @property
    def positions(self) -> dict[LaneKey, int]:
        """Positions of lanes; all below them is in the table."""
        return {
            LaneKey(topic, topic_uid, partition, lane): offset
            for topic, topic_uid, partition, lane, offset in json.loads(
                self.iceberg.properties.get(POSITIONS, "[]")
            )
        }

    @property
    def last_run(self) -> int:
        """Number of the run that committed last; 0 if none did."""
        return int(self.iceberg.properties.get(RUN, "0"))

    def counts_of(self, run: int) -> dict[str, int]:
        """Return the counts of a run; empty if no snapshot has them any more."""
        for snapshot in reversed(self.iceberg.snapshots()):
            said = {} if snapshot.summary is None else snapshot.summary.additional_properties
            if said.get(RUN) == str(run) and COUNTS in said:
                counts: dict[str, int] = json.loads(said[COUNTS])
                return counts
        return {}

    @property
    def state(self) -> ExportTable:
        snapshot = self.iceberg.current_snapshot()
        return ExportTable(
            identifier=".".join(self.iceberg.name()),
            location=self.iceberg.location(),
            metadata_location=self.iceberg.metadata_location,
            snapshot_id=snapshot.snapshot_id if snapshot else None,
        )

    @property
    def columns(self) -> pa.Schema:
        """The columns of the envelope, then those of the body in the order in which they were
        added.
        """
        return arrow_columns(self.iceberg.schema())

    def evolve(self, columns: pa.Schema) -> pa.Schema:
        """Add columns and widen types until rows of `columns` fit; return all columns.

        Changes nothing and raises ConflictingColumn if some can never fit.
        """
        for _ in range(_MAX_TRIES):
            before = self.columns
            after, conflicts = grown(before, columns)
            if conflicts:
                raise ConflictingColumn(conflicts)
            if after == before:
                return before
            try:
                with reachable(), self.iceberg.update_schema() as update:
                    update.union_by_name(after)
            except CommitFailedException:
                self.refresh()
        raise CommitContended(f"{self.state.identifier} was changed {_MAX_TRIES} times in between")

    def writer(
        self, run: int, attempt: int, target_file_bytes: int = TARGET_FILE_BYTES
    ) -> FileWriter:
        """Return a writer of files with the current columns."""
        return FileWriter(self.destination(run, attempt, target_file_bytes))

    def marker(self, attempt: int) -> str:
        """Return a text that differs for every writer, even of the same attempt."""
        return f"{attempt}-{self._token}"

    def destination(
        self, run: int, attempt: int, target_file_bytes: int = TARGET_FILE_BYTES
    ) -> Destination:
        """Return the destination of an attempt's files: a directory of its own, for each writer."""
        table = self.iceberg
        return Destination(
            directory=f"{table.location()}/data/run-{run}/attempt-{self.marker(attempt)}",
            storage=storage_properties(table.io.properties),
            schema=table.schema().model_dump_json(),
            spec=table.spec().model_dump_json(),
            properties=dict(table.properties),
            target_file_bytes=target_file_bytes,
        )

    def commit(self, commit: Commit) -> Committed:
        """Commit a run by the protocol of `commit.py`.

        Raises Superseded, and for a back-fill AheadOfTable.
        """
        return commit_run(self, commit)
