"""Computes the highest cost of one evaluation of an expression, before it is evaluated.

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
"""Nanoseconds for each character of an expression, each time that the engine evaluates it."""
_BYTE_NS = 170.0
"""Nanoseconds for each byte of a message: its body is decoded and passed to the engine."""
_COMPARED_NS = 0.3
"""Nanoseconds for each character of the expression and each byte of a text with which it may be
compared.
"""
_PATTERN_NS = 500.0
"""Nanoseconds for each unit of the weight of patterns, whatever the message."""
_PATTERN_BYTE_NS = 10.0
"""Nanoseconds for each unit of the weight of patterns and each byte of a message."""
_VARIABLE_BYTE_NS = 3.0
"""Nanoseconds for each byte of a variable that a loop reads for each element."""


class Price(NamedTuple):
    """The features of an expression that determine its cost."""

    characters: int
    """Characters outside of loops."""
    loop_characters: int
    """Characters within loops."""
    elements: int
    """Elements of lists that the expression itself writes out."""
    loop_variables: int
    """Uses of variables within loops."""
    pattern_weight: int
    """The weight of its patterns, as `bounds.pattern_weight` computes it."""

    def ns(self, size_bytes: float) -> float:
        """Return the nanoseconds for a message of this size. They grow faster than the size."""
        elements = self.elements + size_bytes / 2 if self.loop_characters else 0.0
        all_characters = self.characters + self.loop_characters
        byte_ns = _BYTE_NS + all_characters * _COMPARED_NS + self.pattern_weight * _PATTERN_BYTE_NS
        return (
            _CHARACTER_NS * (self.characters + elements * self.loop_characters)
            + elements * self.loop_variables * size_bytes * _VARIABLE_BYTE_NS
            + size_bytes * byte_ns
            + self.pattern_weight * _PATTERN_NS
        )


def price_of(tokens: list[Token], variables: Collection[str]) -> Price:
    """Return the price of an expression that `bounds` has accepted."""
    within: set[int] = set()
    for opening, end in loops_of(tokens):
        within.update(range(opening, end + 1))
    sizes = [len(token.text) for token in tokens]
    loop_characters = sum(sizes[index] for index in within)
    commas = sum(token.is_(",") for index, token in enumerate(tokens) if index not in within)
    loop_variables = sum(
        tokens[index].kind is Kind.NAME
        and tokens[index].text in variables
        and not tokens[index - 1].is_(".")
        for index in within
    )
    return Price(
        sum(sizes) - loop_characters,
        loop_characters,
        commas + 1,
        loop_variables,
        pattern_weight(tokens),
    )
