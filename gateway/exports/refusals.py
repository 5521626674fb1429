"""The refusals of the store of exports, as problems."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edge.problem import FieldError, Problem, invalid
from metadata.errors import LeaseLost
from metadata.exports.exports import MAX_EXPORTS, TableTaken, TooManyExports
from metadata.exports.runs import MAX_LIVE, TooManyRuns


@asynccontextmanager
async def refusals() -> AsyncIterator[None]:
    """Raise refusals of the store of exports as problems."""
    try:
        yield
    except TableTaken as error:
        raise Problem.of(
            "table-taken",
            f"The table {error.table!r} of that lake is written by the export {error.export!r}: "
            "give another table, or another lake.",
            errors=[FieldError("table", f"is of the export {error.export!r}")],
        ) from error
    except TooManyExports as error:
        raise Problem.of(
            "too-many-exports",
            f"A tenant has at most {MAX_EXPORTS} exports; delete some.",
            extra={"limit": MAX_EXPORTS},
        ) from error
    except TooManyRuns as error:
        raise Problem.of(
            "too-many-runs",
            f"At most {MAX_LIVE} runs of an export wait; cancel some, or wait until they are over.",
            extra={"limit": MAX_LIVE},
        ) from error


@asynccontextmanager
async def leased() -> AsyncIterator[None]:
    """Raise a lost lease as a 409 Problem."""
    try:
        yield
    except LeaseLost as error:
        raise lease_lost() from error


def lease_lost() -> Problem:
    detail = (
        "The lease of the run is over, or it never was one; nothing was done. Stop, and commit "
        "nothing more: another runner may have the run."
    )
    return Problem.of("lease-lost", detail)


def no_topic(name: str) -> Problem:
    detail = f"there is no topic {name[:128]!r}"
    return invalid("The body does not fit.", [FieldError("topic", detail)])
