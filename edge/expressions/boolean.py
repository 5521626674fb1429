"""Checks that an expression is a boolean, as far as that can be known without a message.

The engine checks no types. So each operand that must be a boolean is checked here: one that
certainly has another type (a text, a number, a call such as `size`) is refused. An operand that
depends on the message, such as a member of `data`, is accepted, and does not match if it is no
boolean after all.
"""

from __future__ import annotations

from edge.expressions.bounds import ExpressionRefused
from edge.expressions.tokens import Kind, Operands, Token, closing

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in")
_ARITHMETIC = ("+", "-", "*", "/", "%")
_ANYTHING = frozenset({"dyn"})
_BOOLEAN_CALLS = frozenset(
    {"contains", "startsWith", "endsWith", "matches", "has", "all", "exists", "exists_one"}
)
_TEXT, _NUMBER, _TIME, _MAP = "a text", "a number", "a time", "a map"
_VARIABLES = {
    **dict.fromkeys(("key", "content_type", "publisher_id", "reason", "detail"), _TEXT),
    **dict.fromkeys(("priority", "partition", "offset", "attempts", "size_bytes"), _NUMBER),
    **dict.fromkeys(("publish_time", "dead_at"), _TIME),
    "attributes": _MAP,
}
"""The types of the variables of messages and dead letters. Any other may have any type."""


def check_boolean(tokens: list[Token]) -> None:
    """Raises ExpressionRefused where the whole, or an operand that must be a boolean, certainly is
    none.
    """
    operands = Operands(tokens)
    waiting = [operands.whole()]
    while waiting:
        operand = _bare(operands, waiting.pop(), tokens)
        parts = _booleans_of(operands, operand)
        if len(parts) > 1:
            waiting.extend(reversed(parts))
        elif operands.find(operand, *_COMPARISONS) is None:
            what = _certainly(operands, operand)
            if what is not None:
                detail = f"this is {what}, not a boolean: compare it with something"
                raise ExpressionRefused(tokens[operand[0]].at, detail)


def _bare(operands: Operands, operand: list[int], tokens: list[Token]) -> list[int]:
    """Return the operand without brackets around it, and without `!` before it."""
    while True:
        negations = 0
        while tokens[operand[negations]].is_("!"):
            negations += 1
        inner = operands.bare(operand[negations:])
        if inner == operand:
            return operand
        operand = inner


def _booleans_of(operands: Operands, operand: list[int]) -> list[list[int]]:
    """Return the operands that must be booleans for it to be one: those of a logical
    operator, or it alone.
    """
    condition = operands.find(operand, "?")
    if condition is not None:
        otherwise = _otherwise(operands, operand, condition)
        return [
            operand[:condition],
            operand[condition + 1 : otherwise],
            operand[otherwise + 1 :],
        ]
    parts = operands.split(operand, "||")
    return parts if len(parts) > 1 else operands.split(operand, "&&")


def _otherwise(operands: Operands, operand: list[int], condition: int) -> int:
    """Return the place of the `:` of that `?`."""
    open_conditions, place = 1, condition
    while open_conditions:
        found = operands.find(operand, "?", ":", start=place + 1)
        if found is None:
            return len(operand) - 1
        place = found
        open_conditions += 1 if operands.tokens(operand[place : place + 1])[0].is_("?") else -1
    return place


def _certainly(operands: Operands, operand: list[int]) -> str | None:
    tokens = operands.tokens(operand)
    if tokens[0].is_("-"):
        return _NUMBER
    if operands.find(operand, *_ARITHMETIC) is not None:
        return "a sum or another result of arithmetic"
    return _operand(tokens)


def _operand(tokens: list[Token]) -> str | None:
    """Return the certain type of a literal, a name, a member or a call; None if it may be a
    boolean.
    """
    first, last = tokens[0], tokens[-1]
    if len(tokens) == 1:
        return _single(first)
    if last.is_(")"):
        return _call(tokens)
    if first.is_("attributes") and _is_member_of_it(tokens):
        return _TEXT
    if first.is_("[") and closing(tokens, 0) == len(tokens) - 1:
        return "a list"
    if first.is_("{") and closing(tokens, 0) == len(tokens) - 1:
        return _MAP
    return None


def _single(token: Token) -> str | None:
    if token.kind is Kind.STRING:
        return _TEXT
    if token.kind is Kind.NAME:
        return "null" if token.text == "null" else _VARIABLES.get(token.text)
    return _NUMBER if token.text[:1].isdigit() else None


def _is_member_of_it(tokens: list[Token]) -> bool:
    """Return whether it is `attributes.name` or `attributes[…]`, and nothing after it."""
    if tokens[1].is_("."):
        return len(tokens) == 3
    return tokens[1].is_("[") and closing(tokens, 1) == len(tokens) - 1


def _call(tokens: list[Token]) -> str | None:
    """Return the type of the last call of a chain."""
    depth = tokens[-1].depth
    opening = next(
        index
        for index in range(len(tokens) - 1, -1, -1)
        if tokens[index].depth == depth and tokens[index].is_("(")
    )
    name = tokens[opening - 1] if opening else None
    if name is None or name.kind is not Kind.NAME:
        return None
    if name.text in _BOOLEAN_CALLS or name.text in _ANYTHING:
        return None
    return f"the result of {name.text}"
