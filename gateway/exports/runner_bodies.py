"""The bodies of runners as they are stored.

A server ignores unknown members of results and of progress: a runner may be newer than the server.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from gateway.exports.lanes import stored
from metadata.exports.types import Ending, Failure, RunProgress, RunResult
from openapi import export_runners as contract

T = TypeVar("T")
MAX_BODY_BYTES = 32 * 1024 * 1024
"""The limit of a plan and of an ending: each has all positions."""


def progress_of(body: contract.ExportRunRenew) -> RunProgress | None:
    """Return the progress that a runner reports, if it reports any."""
    return None if body.progress is None else _stored(body.progress, RunProgress)


def ending_of(body: contract.ExportRunFinish) -> Ending:
    """Return the end of a run that a runner reports."""
    failure = body.failure
    return Ending(
        body.state,
        None if body.result is None else _stored(body.result, RunResult),
        None if body.positions is None else stored(body.positions),
        None if failure is None else Failure(failure.code, failure.message),
        body.retry,
    )


def log_bytes(text: str | None) -> bytes:
    """Return text for the log as it is stored."""
    return (text or "").replace("\0", "\ufffd").encode("utf-8", "replace")


def _stored(body: msgspec.Struct, kind: type[T]) -> T:
    """Return a body as the class of its row, which has the same fields."""
    return msgspec.convert(_storable(msgspec.to_builtins(body)), kind)


def _storable(value: Any) -> Any:
    """Replace each NUL: Postgres stores none in a text."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [_storable(each) for each in value]
    if isinstance(value, dict):
        return {name: _storable(each) for name, each in value.items()}
    return value
