"""Errors of runs; `code` is for programs, and `retry` says that another attempt may succeed."""

from __future__ import annotations

from typing import ClassVar


class RunError(Exception):
    """The run failed; whether something was committed is recorded in the table."""

    code: ClassVar[str] = "run-failed"
    retry: ClassVar[bool] = False


class Stopped(RunError):
    """The runner wants nothing more of the run, or is gone."""

    code = "cancelled"


class BadOrder(RunError):
    """An order that nobody can carry out."""

    code = "bad-order"


class IncompleteRead(RunError):
    """The data source returned fewer messages, or more, than the ranges have."""

    code = "incomplete-read"
    retry = True


class NoAvroSchema(RunError):
    """A topic of an export with Avro bodies has no such schema."""

    code = "no-avro-schema"


class PlatformRefused(RunError):
    """The platform answered a question about topics or schemas with an error."""

    code = "platform-refused"
    retry = True
