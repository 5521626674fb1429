"""Filters of dead letters."""

from __future__ import annotations

from collections.abc import Callable

from edge.expressions import Expression, compile_expression
from metadata.subscriptions.dead_letters import StoredDeadLetter

VARIABLES = (
    "reason",
    "detail",
    "attempts",
    "key",
    "attributes",
    "content_type",
    "size_bytes",
    "publish_time",
    "dead_at",
    "partition",
    "offset",
)
Filter = Callable[[StoredDeadLetter], bool]


def compile_filter(text: str) -> Filter:
    """Return a filter; raises `edge.expressions.BadExpression`."""
    expression = compile_expression(text, VARIABLES)
    return lambda letter: _matches(expression, letter)


def _matches(expression: Expression, letter: StoredDeadLetter) -> bool:
    return expression.matches({name: _value(letter, name) for name in expression.variables})


def _value(letter: StoredDeadLetter, name: str) -> object:
    if name == "attributes":
        return dict(letter.attributes)
    value: object = getattr(letter, name)
    return value
