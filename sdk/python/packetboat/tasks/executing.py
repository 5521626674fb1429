"""Runs a handler on a task and returns the outcome.

An exception of the handler is an outcome, too.
"""

from __future__ import annotations

from typing import Any

from packetboat.calls.work import MAX_OUTPUT_BYTES
from packetboat.tasks.context import TaskContext
from packetboat.tasks.nested import NestedJob
from packetboat.tasks.outcomes import Done, Failed, Outcome, outcome_of
from packetboat.tasks.values import encode


def execute(definition: Any, source: Any, context: TaskContext) -> Outcome:
    """Run a task in the calling thread.

    `source` is the encoded input, or an iterator of encoded outputs; `definition` is a map task, a
    reduce task or a part of a fold.
    """
    try:
        return _outcome(definition.call(source, context))
    except (Exception, SystemExit) as error:
        return outcome_of(error)


async def execute_async(definition: Any, source: Any, context: TaskContext) -> Outcome:
    """Run a task of an async function like `execute`; a cancellation propagates."""
    try:
        return _outcome(await definition.acall(source, context))
    except (Exception, SystemExit) as error:
        return outcome_of(error)


def _outcome(value: Any) -> Outcome:
    if isinstance(value, NestedJob):
        return value.encoded()
    try:
        output = encode(value)
    except (TypeError, ValueError) as error:
        return Failed(f"the output cannot be sent: {error}", retry=False)
    size = len(bytes(output))
    if size > MAX_OUTPUT_BYTES:
        text = f"the output has {size} bytes of JSON, and may have {MAX_OUTPUT_BYTES}"
        return Failed(text, retry=False)
    return Done(output)
