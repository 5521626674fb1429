"""The parts of a conjunction (`attributes.kind == "x" && …`) that need no evaluation.

An expression is true for a message if each part is true for it: an error in one part makes no other
part true. So equalities of attributes can be answered from an index, and the rest is evaluated only
for messages for which they hold.
"""

from __future__ import annotations

from typing import NamedTuple

from edge.expressions.tokens import Kind, Operands, Token, string_of

_ATTRIBUTES = "attributes"


class Equality(NamedTuple):
    """A part that is true if the attribute has one of these values."""

    attribute: str
    values: frozenset[str]


class Conjunction(NamedTuple):
    """An expression in two parts; `residual` remains to be evaluated, or is None if nothing
    does.
    """

    equalities: tuple[Equality, ...]
    residual: str | None


def split(text: str, tokens: list[Token]) -> Conjunction:
    equalities, rest = [], []
    for part, bare in _parts(tokens):
        equality = _equality(bare)
        if equality is None:
            # With its brackets: of `(a || b) && c`, the parts are joined again.
            rest.append(text[part[0].at : part[-1].end])
        else:
            equalities.append(equality)
    return Conjunction(tuple(equalities), "\n&& ".join(rest) or None)


def _parts(tokens: list[Token]) -> list[tuple[list[Token], list[Token]]]:
    """Return the tokens of each part, with the brackets around it and without them."""
    operands = Operands(tokens)
    waiting, parts = [operands.whole()], []
    while waiting:
        part = waiting.pop()
        bare = operands.bare(part)
        of_it = [bare]
        if operands.find(bare, "||", "?") is None:
            of_it = operands.split(bare, "&&")
        if len(of_it) > 1:
            waiting.extend(reversed(of_it))
        else:
            parts.append((operands.tokens(part), operands.tokens(bare)))
    return parts


def _equality(tokens: list[Token]) -> Equality | None:
    named = _attribute(tokens)
    if named is not None:
        name, rest = named
        if len(rest) == 2 and rest[0].is_("=="):
            return _equality_of(name, rest[1:])
        if len(rest) >= 4 and rest[0].is_("in") and rest[1].is_("[") and rest[-1].is_("]"):
            values, commas = rest[2:-1:2], rest[3:-1:2]
            if all(token.is_(",") for token in commas):
                return _equality_of(name, values)
    elif len(tokens) > 2 and tokens[0].kind is Kind.STRING and tokens[1].is_("=="):
        named = _attribute(tokens[2:])
        if named is not None and not named[1]:
            return _equality_of(named[0], tokens[:1])
    return None


def _equality_of(name: str, literals: list[Token]) -> Equality | None:
    values = [string_of(token) if token.kind is Kind.STRING else None for token in literals]
    known = frozenset(value for value in values if value is not None)
    return Equality(name, known) if None not in values else None


def _attribute(tokens: list[Token]) -> tuple[str, list[Token]] | None:
    """Return the attribute that the tokens begin with, and the tokens after it."""
    if len(tokens) < 3 or not tokens[0].is_(_ATTRIBUTES):
        return None
    if tokens[1].is_(".") and tokens[2].kind is Kind.NAME:
        return tokens[2].text, tokens[3:]
    if len(tokens) > 3 and tokens[1].is_("[") and tokens[3].is_("]"):
        name = string_of(tokens[2]) if tokens[2].kind is Kind.STRING else None
        return (name, tokens[4:]) if name is not None else None
    return None


def fields_of(variable: str, tokens: list[Token]) -> frozenset[str] | None:
    """Return the members of a map that the expression looks at; None if it may be all of them."""
    fields = set()
    for index, token in enumerate(tokens):
        if not token.is_(variable) or (index and tokens[index - 1].is_(".")):
            continue
        following = tokens[index + 1 : index + 4]
        if len(following) > 1 and following[0].is_(".") and following[1].kind is Kind.NAME:
            if len(following) > 2 and following[2].is_("("):
                return None
            fields.add(following[1].text)
        elif len(following) > 2 and following[0].is_("[") and following[2].is_("]"):
            name = string_of(following[1]) if following[1].kind is Kind.STRING else None
            if name is None:
                return None
            fields.add(name)
        else:
            return None
    return frozenset(fields)
