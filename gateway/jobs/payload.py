"""Bodies that carry JSON of callers, which is kept byte for byte as it came.

`read` reads them: a long one in a worker process, which calls the functions that are given to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from edge.asgi import Receive, Scope, read_body, tenant_of
from edge.decode_errors import field_error, malformed
from edge.large_bodies import SMALL_BYTES, read_in_worker
from edge.problem import FieldError, Problem, invalid
from edge.process_pool import ProcessPool
from gateway.http.decoding import decode_json
from openapi import jobs as contract

T = TypeVar("T")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items = msgspec.json.Decoder(list[msgspec.Raw])


class Completion(msgspec.Struct, array_like=True):
    """One item of `POST /tasks:complete`; its output is JSON."""

    lease_id: str
    output: bytes = b"null"
    wait_for: str | None = None


class Inputs(msgspec.Struct, array_like=True):
    """The inputs that `POST /jobs/{job}/tasks` adds, each as JSON."""

    first_index: int
    inputs: list[bytes]


async def read(
    process_pool: ProcessPool | None,
    scope: Scope,
    receive: Receive,
    limit_bytes: int,
    kind: type[T],
    function: Callable[[bytes], T],
) -> T:
    """Return the body as the function reads it; raise a 400, 413, 422 or 429 Problem."""
    body = await read_body(scope, receive, limit_bytes)
    if len(body) > SMALL_BYTES:
        return await read_in_worker(process_pool, tenant_of(scope), kind, function, body)
    return function(body)


def completions_of(body: bytes) -> list[Completion]:
    """Read the body of `POST /tasks:complete`."""
    members = read_members(body)
    raw = items_of(members, "tasks", contract.MAX_LEASES_AT_ONCE)
    items = [members_of(each, f"tasks[{at}]") for at, each in enumerate(raw)]
    outputs = [each.pop("output", None) for each in items]
    given = converted(members | {"tasks": items}, contract.TasksComplete).tasks
    return [
        _completion(each, output, f"tasks[{at}]")
        for at, (each, output) in enumerate(zip(given, outputs, strict=True))
    ]


def inputs_of(body: bytes) -> Inputs:
    """Read the body of `POST /jobs/{job}/tasks`; its inputs stay as they came."""
    members = read_members(body)
    items = items_of(members, "inputs", contract.MAX_TASKS_AT_ONCE)
    first = converted(members | {"inputs": [None] * len(items)}, contract.TasksAdd).first_index
    if first + len(items) > contract.MAX_JOB_TASKS:
        detail = f"a job has at most {contract.MAX_JOB_TASKS} tasks"
        raise invalid("The body does not fit.", [FieldError("first_index", detail)])
    most = contract.MAX_INPUT_BYTES
    inputs = [payload_of(item, f"inputs[{at}]", most) for at, item in enumerate(items)]
    return Inputs(first, inputs)


def failures_of(body: bytes) -> contract.TasksFail:
    """Read the body of `POST /tasks:fail`."""
    return decode_json(body, contract.TasksFail)


def read_members(body: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of a body that is a JSON object; raise a 400 or 422 Problem."""
    try:
        # Also what is kept unread: nobody could read it out of an answer of ours.
        msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(error) from error
    return _decoded(body, "body", _members)


def members_of(item: msgspec.Raw, field: str) -> dict[str, msgspec.Raw]:
    """Return the members of an object in a body; raise a 422 Problem."""
    return _decoded(item, field, _members)


def items_of(members: dict[str, msgspec.Raw], name: str, most: int) -> list[msgspec.Raw]:
    """Take a list of 1 to `most` items out of the members; raise a 422 Problem."""
    if name not in members:
        raise _refused(name, "required")
    items = _decoded(members.pop(name), name, _items)
    if not 1 <= len(items) <= most:
        raise _refused(name, f"1 to {most} items")
    return items


def payload_of(item: msgspec.Raw, field: str, most_bytes: int) -> bytes:
    """Return an item as it came; raise a 422 Problem if it is too long."""
    payload = bytes(item)
    if len(payload) > most_bytes:
        raise _refused(field, f"at most {most_bytes} bytes of JSON")
    return payload


def converted(value: object, kind: type[T]) -> T:
    """Return the other members, checked by the rules for the body of any request."""
    return decode_json(msgspec.json.encode(value), kind)


def _completion(
    given: contract.TaskCompletion, output: msgspec.Raw | None, field: str
) -> Completion:
    if given.wait_for is not None:
        if output is not None:
            detail = "give either output or wait_for"
            raise invalid("The body does not fit.", [FieldError(field, detail)])
        return Completion(given.lease_id, wait_for=given.wait_for)
    if output is None:
        return Completion(given.lease_id)
    payload = payload_of(output, f"{field}.output", contract.MAX_OUTPUT_BYTES)
    return Completion(given.lease_id, payload)


def _decoded(raw: msgspec.Raw | bytes, field: str, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _refused(field, field_error(str(error)).detail) from error


def _refused(field: str, detail: str) -> Problem:
    return invalid("The body does not fit.", [FieldError(field, detail)])
