"""How a run fails. `code` is for programs; `retry`: another attempt may succeed."""

from __future__ import annotations

from typing import ClassVar


class RunError(Exception):
    """Nothing was committed that the table does not say."""

    code: ClassVar[str] = "run-failed"
    retry: ClassVar[bool] = False


class Stopped(RunError):
    """The runner wants no more of it, or is gone."""

    code = "cancelled"


class BadOrder(RunError):
    """An order that cannot be carried out by anyone."""

    code = "bad-order"


class IncompleteRead(RunError):
    """Fewer messages came, or more, than the ranges have."""

    code = "incomplete-read"
    retry = True


class NoAvroSchema(RunError):
    """A topic of an export with Avro bodies has no such schema."""

    code = "no-avro-schema"


class PlatformRefused(RunError):
    """The platform answered a question about topics or schemas with an error."""

    code = "platform-refused"
    retry = True
