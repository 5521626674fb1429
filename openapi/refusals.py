"""The refusals of each operation: they follow from rules and from its row."""

from __future__ import annotations

from openapi import common
from openapi.contract import Operation, Refusal

WITH_TOKEN = (
    common.BAD_REQUEST,
    common.UNAUTHENTICATED,
    common.FORBIDDEN,
    common.INTERNAL_ERROR,
    common.UNAVAILABLE,
    common.OUTCOME_UNKNOWN,
)
"""Refusals of every operation that needs a token."""
WITH_BODY = (common.BODY_TIMEOUT, common.TOO_LARGE, common.UNPROCESSABLE)


def refusals_of(operation: Operation) -> list[Refusal]:
    """Return how the operation may be refused, each status once."""
    found: list[Refusal] = []
    if operation.permission != "public":
        found += WITH_TOKEN
        changes = operation.method != "GET" and operation.permission in ("manage", "administer")
        found.append(common.TOO_MANY_CHANGES if changes else common.RATE_LIMITED)
        if "{" in operation.path:
            found.append(common.NOT_FOUND)
        if operation.body is not None or operation.media:
            found += WITH_BODY
        if common.IF_MATCH in operation.parameters:
            found.append(common.PRECONDITION_FAILED)
    found = [each for each in found if each not in operation.never]
    by_status = {each.status: each for each in (*found, *operation.problems)}
    return [by_status[status] for status in sorted(by_status)]
