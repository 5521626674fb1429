"""The highest cost of one evaluation of an expression, known before it is made.

A loop looks at each element of a list. A message has at most one element for each two of its bytes,
and an expression has as many as it writes out. The constants are nanoseconds of one slow core, a
little above the measured ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from edge.expressions.bounds import loops_of, pattern_weight
from edge.expressions.tokens import Kind, Token

_CHARACTER_NS = 30.0
"""Nanoseconds of each character of an expression, each time that it is gone through."""
_BYTE_NS = 170.0
"""Nanoseconds of each byte of a message: its body is decoded, and handed to the engine."""
_COMPARED_NS = 0.3
"""Nanoseconds of each character of the expression for each byte of a text that it may be
compared with.
"""
_PATTERN_NS, _PATTERN_BYTE_NS = 500.0, 10.0
_HANDED_NS = 3.0
"""Nanoseconds of each byte of a variable that a loop looks at for each element."""


class Price(NamedTuple):
    """`outside` and `inside` loops: characters; `elements` that the expression writes out;
    `mentions` of variables within loops; `weight` of its patterns."""

    outside: int
    inside: int
    elements: int
    mentions: int
    weight: int

    def ns(self, size_bytes: float) -> float:
        """Return the cost for a message of that size; it grows with the size, faster the
        larger it is.
        """
        elements = self.elements + size_bytes / 2 if self.inside else 0.0
        characters = self.outside + self.inside
        return (
            _CHARACTER_NS * (self.outside + elements * self.inside)
            + elements * self.mentions * size_bytes * _HANDED_NS
            + size_bytes * (_BYTE_NS + characters * _COMPARED_NS + self.weight * _PATTERN_BYTE_NS)
            + self.weight * _PATTERN_NS
        )


def price_of(tokens: list[Token], variables: Collection[str]) -> Price:
    """Return the price of an expression that was checked."""
    within: set[int] = set()
    for opening, end in loops_of(tokens):
        within.update(range(opening, end + 1))
    sizes = [len(token.text) for token in tokens]
    inside = sum(sizes[index] for index in within)
    commas = sum(token.is_(",") for index, token in enumerate(tokens) if index not in within)
    mentions = sum(
        tokens[index].kind is Kind.NAME
        and tokens[index].text in variables
        and not tokens[index - 1].is_(".")
        for index in within
    )
    return Price(sum(sizes) - inside, inside, commas + 1, mentions, pattern_weight(tokens))
