"""The tokens of an expression that the engine's parser has accepted already."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


class Kind(enum.Enum):
    NAME = "name"
    STRING = "string"
    OTHER = "other"


class Token(NamedTuple):
    """`at` is where it begins in the text; `depth` how many brackets are open around it."""

    kind: Kind
    text: str
    at: int
    depth: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    def is_(self, text: str) -> bool:
        """Whether it is that operator, bracket or name."""
        return self.kind is not Kind.STRING and self.text == text


_PATTERN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<string>[rRbB]{0,2}(?:\"\"\"(?:\\.|.)*?\"\"\"|'''(?:\\.|.)*?'''))
  | (?P<raw>[bB]?[rR][bB]?(?:"[^"\n]*"|'[^'\n]*'))
  | (?P<plain>[bB]?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<other>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[uU]?|&&|\|\||[=!<>]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {"name": Kind.NAME, "other": Kind.OTHER}


def scan(text: str) -> list[Token]:
    """All but spaces and comments."""
    tokens: list[Token] = []
    depth = at = 0
    while at < len(text):
        found = _PATTERN.match(text, at)
        assert found is not None
        at = found.end()
        if found.lastgroup == "space":
            continue
        kind = _KINDS.get(found.lastgroup or "", Kind.STRING)
        closing = kind is Kind.OTHER and found[0] in _CLOSING
        depth -= closing
        tokens.append(Token(kind, found[0], found.start(), depth))
        depth += kind is Kind.OTHER and found[0] in _OPENING
    return tokens


def string_of(token: Token) -> str | None:
    """The value of a string literal; None for bytes."""
    import cel  # see expression.py

    value = cel.compile(token.text).execute()
    return value if isinstance(value, str) else None


def closing(tokens: list[Token], opening: int) -> int:
    """The index of the bracket that closes the one at `opening`."""
    depth = tokens[opening].depth
    for index in range(opening + 1, len(tokens)):
        token = tokens[index]
        if token.depth == depth and token.kind is Kind.OTHER and token.text in _CLOSING:
            return index
    return len(tokens) - 1
