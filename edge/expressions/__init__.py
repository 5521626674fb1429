"""Expressions in CEL that tenants write: filters, skip rules, what to redrive.

They come from outside and run in the loop that serves everybody, so what is taken is bounded: an
evaluation costs at most time linear in the message, whatever the expression.
"""

from __future__ import annotations

from edge.expressions.expression import (
    MESSAGE_VARIABLES,
    BadExpression,
    Expression,
    compile_expression,
    compile_filter,
)

__all__ = [
    "MESSAGE_VARIABLES",
    "BadExpression",
    "Expression",
    "compile_expression",
    "compile_filter",
]
