"""The outcomes of running a task.

A handler that returns has given its output, one that raises is tried again. It raises `Reject` when
the task has failed for good, `RetryLater` to name the time of the next try, `Release` to leave it
to another worker: the exceptions of the handlers of messages.
"""

from __future__ import annotations

import traceback

import msgspec

from packetboat.models.jobs import JobSpec
from packetboat.worker.outcomes import Reject, Release, RetryLater

MAX_ERROR_CHARACTERS = 4_000
"""A little less than the server keeps."""


class TaskCancelled(Exception):
    """Raised by `TaskContext.raise_if_cancelled` when the output is not wanted any more."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a task that has an output."""

    output: msgspec.Raw


class Nested(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a task whose output a nested job shall give."""

    name: str
    spec: JobSpec
    inputs: list[msgspec.Raw]
    as_urgent: bool = True
    """True if its priority is that of the job in which it is nested."""


class Waits(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a task whose nested job exists and will give its output."""

    job: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a task without an output; with `retry` another attempt may help."""

    error: str
    retry: bool = True
    delay_s: float | None = None


class Released(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a task that another worker shall do; the attempt does not count."""


class Dropped(msgspec.Struct, frozen=True, tag=True):
    """The outcome of a task whose result is not wanted; it is not reported."""


Outcome = Done | Nested | Failed | Released | Dropped
Report = Done | Waits | Failed | Released
"""The outcomes that a worker reports to the server."""


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome for an exception of a handler."""
    match error:
        case TaskCancelled():
            return Dropped()
        case Release():
            return Released()
        case Reject():
            return Failed(text_of(error), retry=False)
        case RetryLater():
            return Failed(text_of(error), delay_s=error.delay_s)
        case _:
            return Failed(text_of(error))


def text_of(error: BaseException) -> str:
    """Return the text of an exception that a handler raised on purpose; for others the
    traceback, too.
    """
    if isinstance(error, Reject | RetryLater) and error.__cause__ is None and str(error):
        return bounded(str(error))
    return bounded("".join(traceback.format_exception(error)).strip())


def bounded(text: str) -> str:
    """Cut the middle out of a long text: its first and last lines say most."""
    if len(text) <= MAX_ERROR_CHARACTERS:
        return text
    half = MAX_ERROR_CHARACTERS // 2 - 20
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
