"""Runs of exports, as their tenant sees them."""

from __future__ import annotations

from collections.abc import Sequence

from metadata.database import Database
from metadata.errors import MetadataError
from metadata.export_types import EXPORT, LaneRange, Run
from metadata.types import Page

MAX_LIVE = 100
"""Runs of one export that are not finished."""
MAX_ATTEMPTS = 5
KEPT_RUNS = 200
KEPT_DAYS = 90
"""A finished run goes once it is older, or as many came after it."""
MAX_LOG_BYTES = 256 * 1024
"""Of one run: the latest."""


class TooManyRuns(MetadataError):
    """As many as may wait do."""

    code = "too_many_runs"


class ExportRunRepository:
    """By the export's name and the run's number, which grows from 1."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        tenant_id: bytes,
        export: str,
        kind: str = EXPORT,
        ranges: Sequence[LaneRange] | None = None,
    ) -> tuple[Run, bool]:
        """A run on demand; `ranges` of a back-fill and a reconciliation. False: it was there, for
        of kind `export` one waits at a time. NotFound; TooManyRuns."""
        raise NotImplementedError

    async def get(self, tenant_id: bytes, export: str, number: int) -> Run:
        """NotFound of the export or the run."""
        raise NotImplementedError

    async def page(
        self, tenant_id: bytes, export: str, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Run]:
        """Newest first; NotFound of the export; BadPageToken."""
        raise NotImplementedError

    async def cancel(self, tenant_id: bytes, export: str, number: int) -> Run:
        """At once where it is queued; where it runs, its runner is told at its next renewal.
        Nothing of a finished one. NotFound of the export or the run."""
        raise NotImplementedError

    async def log(self, tenant_id: bytes, export: str, number: int) -> str:
        """The latest of what its attempts said; NotFound of the export or the run."""
        raise NotImplementedError
