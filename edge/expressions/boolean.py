"""Whether an expression gives a boolean, as far as that can be told without a message.

The engine checks no types. Here each operand that has to be a boolean is looked at: what is certain
to be something else (a text, a number, a call such as `size`) is refused. What depends on the
message, a member of `data` above all, is taken, and is no match where it turns out otherwise.
"""

from __future__ import annotations

from edge.expressions.bounds import Refused
from edge.expressions.tokens import Kind, Token, closing

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
"""What the variables of messages and dead letters are. Any other may be anything."""


def check_boolean(tokens: list[Token]) -> None:
    """Raises Refused where the whole, or an operand that must be a boolean, certainly is none."""
    tokens = _bare(tokens)
    condition = _first(tokens, ("?",))
    if condition is not None:
        otherwise = _otherwise(tokens, condition)
        for part in (
            tokens[:condition],
            tokens[condition + 1 : otherwise],
            tokens[otherwise + 1 :],
        ):
            check_boolean(part)
        return
    for operator in ("||", "&&"):
        at = _first(tokens, (operator,))
        if at is not None:
            check_boolean(tokens[:at])
            check_boolean(tokens[at + 1 :])
            return
    if _first(tokens, _COMPARISONS) is not None:
        return
    what = _arithmetic(tokens) or _operand(tokens)
    if what is not None:
        detail = f"this is {what}, not a boolean: compare it with something"
        raise Refused(tokens[0].at, detail)


def _bare(tokens: list[Token]) -> list[Token]:
    """Without brackets around it, and without `!` before it."""
    while tokens:
        if tokens[0].is_("!"):
            tokens = tokens[1:]
        elif tokens[0].is_("(") and closing(tokens, 0) == len(tokens) - 1:
            tokens = tokens[1:-1]
        else:
            break
    return tokens


def _first(tokens: list[Token], texts: tuple[str, ...]) -> int | None:
    """Where one of these stands outside all brackets, and not as the name of a member."""
    depth = tokens[0].depth
    for index, token in enumerate(tokens):
        if not index or token.depth != depth or tokens[index - 1].is_("."):
            continue
        if any(token.is_(text) for text in texts):
            return index
    return None


def _otherwise(tokens: list[Token], condition: int) -> int:
    """The `:` of that `?`."""
    depth, open_conditions = tokens[0].depth, 0
    for index in range(condition + 1, len(tokens)):
        token = tokens[index]
        if token.depth != depth:
            continue
        if token.is_("?"):
            open_conditions += 1
        elif token.is_(":"):
            if not open_conditions:
                return index
            open_conditions -= 1
    return len(tokens) - 1


def _arithmetic(tokens: list[Token]) -> str | None:
    if tokens[0].is_("-"):
        return _NUMBER
    if _first(tokens, _ARITHMETIC) is not None:
        return "a sum or another result of arithmetic"
    return None


def _operand(tokens: list[Token]) -> str | None:
    """What a literal, a name, a member or a call certainly is; None: perhaps a boolean."""
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
    """`attributes.name` or `attributes[…]`, and nothing behind it."""
    if tokens[1].is_("."):
        return len(tokens) == 3
    return tokens[1].is_("[") and closing(tokens, 1) == len(tokens) - 1


def _call(tokens: list[Token]) -> str | None:
    """What the last call of a chain gives."""
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
    return f"what {name.text} gives"
