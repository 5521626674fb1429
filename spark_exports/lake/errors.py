"""Errors of a lake; `code` is for programs, and `retry` says that another attempt may succeed."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from packetboat.models.export_runs import LaneKey


class LakeError(Exception):
    """Nothing that was asked for has become visible."""

    code: ClassVar[str] = "lake-error"
    retry: ClassVar[bool] = False


class CatalogUnavailable(LakeError):
    """The catalog cannot be reached, or was lost on the way.

    It is then unknown whether a commit was done. Every attempt begins with a look at the table.
    """

    code = "catalog-unavailable"
    retry = True


class Superseded(LakeError):
    """The table is not as this attempt was planned for: another one was faster."""

    code = "superseded"
    retry = True


class CommitContended(LakeError):
    """Other commits came before each try, so often that something is wrong."""

    code = "commit-contended"
    retry = True


class TableGone(LakeError):
    """The table was dropped, or made again, while it was in use."""

    code = "table-gone"
    retry = True


class NotOurTable(LakeError):
    """The name belongs to a table that this export did not make."""

    code = "not-our-table"


class LayoutDiffers(LakeError):
    """The table is partitioned in another way than the export is configured for."""

    code = "layout-differs"


class NamesakeTopic(LakeError):
    """A back-fill of a topic whose name another topic had before, with rows in the table."""

    code = "namesake-topic"


class AheadOfTable(LakeError):
    """A back-fill names offsets that the export itself has not reached."""

    code = "ahead-of-table"

    def __init__(self, key: LaneKey, position: int | None) -> None:
        where = "nothing yet" if position is None else f"all below {position}"
        super().__init__(
            f"of {key.topic} partition {key.partition} lane {key.lane} the table has {where}:"
            " a back-fill may not leave a gap behind it"
        )
        self.key = key
        self.position = position


class ListingDiffers(LakeError):
    """The storage does not list files that the table names."""

    code = "listing-differs"


class Conflict(msgspec.Struct, frozen=True):
    """A field that the table cannot take: `path` from the top, and why."""

    path: tuple[str, ...]
    reason: str


class ConflictingColumn(LakeError):
    """Columns that the table cannot become; nothing was changed. `conflicts` lists all of them."""

    code = "conflicting-column"

    def __init__(self, conflicts: list[Conflict]) -> None:
        said = "; ".join(f"{'.'.join(each.path)}: {each.reason}" for each in conflicts)
        super().__init__(f"columns do not fit the table: {said}")
        self.conflicts = conflicts
