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
        raise Problem(409, "job-sealed", "The job is sealed", f"{_sentence(error)}") from error
    except JobEnded as error:
        raise Problem(409, "job-ended", "The job has ended", f"{_sentence(error)}") from error
    except JobLive as error:
        detail = f"{_sentence(error)} Wait for its end, or cancel it."
        raise Problem(409, "job-live", "The job has not ended", detail) from error
    except TasksMissing as error:
        raise Problem(409, "tasks-missing", "Tasks are missing", f"{_sentence(error)}") from error
    except TaskDiffers as error:
        raise Problem(
            409,
            "task-differs",
            "The task is another",
            f"There is a task {error.number} with another input; inputs are never changed.",
            extra={"index": error.number},
        ) from error


def too_many(error: TooManyStored) -> Problem:
    return Problem(
        429,
        "too-many-stored",
        "Too many stored",
        f"{_sentence(error)} Delete jobs, or wait until old ones go.",
        retry_after_s=RETRY_AFTER_S,
        extra={"limit": error.limit},
    )


def exists(name: str) -> Problem:
    detail = f"There is a job {name!r} already, made of something else."
    return Problem(409, "job-exists", "Job exists", detail)


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + "."
