"""The refusals of the job store, as problems."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edge.problem import FieldError, Problem, invalid
from metadata.jobs.jobs import BadParent, TooManyStored
from metadata.jobs.steps import JobEnded, JobLive, JobSealed, TaskDiffers, TasksMissing

RETRY_AFTER_S = 60.0
"""Room comes by deleting, or with time."""


@asynccontextmanager
async def refusals() -> AsyncIterator[None]:
    """Raise refusals of the job store as problems."""
    try:
        yield
    except TooManyStored as error:
        raise too_many(error) from error
    except BadParent as error:
        detail = f"{error}"
        raise invalid("The body does not fit.", [FieldError("parent", detail)]) from error
    except JobSealed as error:
        raise Problem.of("job-sealed", f"{_sentence(error)}") from error
    except JobEnded as error:
        raise Problem.of("job-ended", f"{_sentence(error)}") from error
    except JobLive as error:
        detail = f"{_sentence(error)} Wait for its end, or cancel it."
        raise Problem.of("job-live", detail) from error
    except TasksMissing as error:
        raise Problem.of("tasks-missing", f"{_sentence(error)}") from error
    except TaskDiffers as error:
        raise Problem.of(
            "task-differs",
            f"There is a task {error.number} with another input; inputs are never changed.",
            extra={"index": error.number},
        ) from error


def too_many(error: TooManyStored) -> Problem:
    return Problem.of(
        "too-many-stored",
        f"{_sentence(error)} Delete jobs, or wait until old ones go.",
        retry_after_s=RETRY_AFTER_S,
        extra={"limit": error.limit},
    )


def exists(name: str) -> Problem:
    detail = f"There is a job {name!r} already, made of something else."
    return Problem.of("job-exists", detail)


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + "."
