"""The refusals of each operation: they follow from rules and from its row."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from openapi import common
from openapi.contract import Operation, Refusal


class Rule(NamedTuple):
    """Refusals that all operations of a kind have."""

    words: str
    """The words for these operations, after "each operation"."""
    holds: Callable[[Operation], bool]
    refusals: tuple[Refusal, ...]


def _changes(operation: Operation) -> bool:
    return operation.method != "GET" and operation.permission in ("manage", "administer")


RULES = (
    Rule(
        "that needs a token",
        lambda _: True,
        (
            common.BAD_REQUEST,
            common.UNAUTHENTICATED,
            common.FORBIDDEN,
            common.INTERNAL_ERROR,
            common.UNAVAILABLE,
            common.OUTCOME_UNKNOWN,
        ),
    ),
    Rule("that changes a resource", _changes, (common.TOO_MANY_CHANGES,)),
    Rule(
        "that needs a token and changes no resource",
        lambda operation: not _changes(operation),
        (common.RATE_LIMITED,),
    ),
    Rule("with a name in its path", lambda operation: "{" in operation.path, (common.NOT_FOUND,)),
    Rule(
        "with a body",
        lambda operation: operation.body is not None or bool(operation.media),
        (common.BODY_TIMEOUT, common.TOO_LARGE, common.UNPROCESSABLE),
    ),
    Rule(
        "with `If-Match`",
        lambda operation: common.IF_MATCH in operation.parameters,
        (common.PRECONDITION_FAILED,),
    ),
)
"""The rules for operations that need a token. A public one has the refusals of its row alone."""


def refusals_of(operation: Operation) -> list[Refusal]:
    """Return how the operation may be refused, each status once."""
    found: list[Refusal] = []
    if operation.permission != "public":
        found = [each for rule in RULES if rule.holds(operation) for each in rule.refusals]
    found = [each for each in found if each not in operation.never]
    by_status = {each.status: each for each in (*found, *operation.problems)}
    return [by_status[status] for status in sorted(by_status)]
