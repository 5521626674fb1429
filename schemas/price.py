"""The cost of compiling a JSON Schema and checking a body with it, known before the work is done.

A definition is a tree. Some of its subschemas look at one value of a body, others at each of many
(those of `items`, `additionalProperties` and so on). Together with the number of bytes of a body,
which has at most half as many values, that bounds the work of the library. The automaton of a
pattern is run over the texts of a body, at worst with all of its states at once.

The constants are times of one slow core, a little above those measured there. Cheap work is done on
the event loop, all other work in a worker process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

HERE_NS = 12e6
"""Nanoseconds that one piece of work may cost on the event loop."""
EXPLAIN_NS = 500e6
"""Nanoseconds that it may cost, in a worker, to explain the faults of a body."""
MAX_STATES = 10**7
MAX_PATTERN_CHARS = 4_096
"""Characters of a pattern that is examined here; longer ones are expensive in any case."""
_BYTE_NS = 150.0
"""Cost of each byte of a body, which is decoded, walked through and handed to the library."""
_EVALUATION_NS = 15.0
_STATE_NS = 55.0
"""Cost of each state of a pattern for each byte of a text."""
_ERROR_NS = 12_000.0
_COPIED_BYTE_NS = 25.0
_TEXT_NS = 130.0
"""Cost of each byte of a definition."""
_BUILT_STATE_NS = 1_000.0
_FORMAT, _PATTERN, _UNIQUE, _MULTIPLE = 100.0, 20.0, 20.0, 1_200.0
"""Evaluations for which a keyword counts; `multipleOf` makes a fraction of a large number."""
_OF_EACH = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "items",
        "patternProperties",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose subschema looks at any number of values."""


class Price(NamedTuple):
    """A price in evaluations and states.

    `once` counts evaluations of one value, `each` those of each value that a body has, and `states`
    those of all patterns together.
    """

    once: float = 0.0
    each: float = 0.0
    states: float = 0.0

    def and_within(self, keyword: str, inner: Price) -> Price:
        """Return the price with that of a subschema under a keyword."""
        if keyword in _OF_EACH:
            inner = Price(0.0, inner.once + inner.each, inner.states)
        return Price(self.once + inner.once, self.each + inner.each, self.states + inner.states)

    def compile_ns(self, text_bytes: int) -> float:
        return text_bytes * _TEXT_NS + self.states * _BUILT_STATE_NS

    def check_ns(self, size_bytes: int) -> float:
        evaluations = self.once + self.each * size_bytes / 2
        return size_bytes * (_BYTE_NS + self.states * _STATE_NS) + evaluations * _EVALUATION_NS

    def explain_ns(self, size_bytes: int) -> float:
        """Return the cost of finding all faults, which the library either does or does not; each
        copies its value.
        """
        errors = self.once + self.each * size_bytes / 2
        return errors * _ERROR_NS + self.once * size_bytes * _COPIED_BYTE_NS


def of_keywords(schema: Mapping[str, Any]) -> Price:
    """Return the price of one schema without its subschemas."""
    once = 1.0 + _length(schema.get("required"))
    each = states = 0.0
    for name in ("dependentRequired", "dependencies"):
        lists = schema.get(name)
        if isinstance(lists, dict):
            once += sum(1.0 + _length(each) for each in lists.values())
    for name in ("enum", "const"):
        once += _values(schema.get(name))
    once += _MULTIPLE * ("multipleOf" in schema) + _UNIQUE * ("uniqueItems" in schema)
    if "uniqueItems" in schema:
        each += _UNIQUE
    if "format" in schema:
        once += _FORMAT
        # The library compiles each text of this format.
        states += MAX_STATES if schema["format"] == "regex" else 0.0
    patterns = schema.get("patternProperties")
    for pattern in (schema.get("pattern"), *(patterns if isinstance(patterns, dict) else ())):
        if isinstance(pattern, str):
            each += _PATTERN if pattern is not schema.get("pattern") else 0.0
            once += _PATTERN
            states += automaton_states(pattern)
    return Price(once, each, min(states, MAX_STATES))


def _length(value: object) -> float:
    return float(len(value)) if isinstance(value, list | dict) else 0.0


def _values(value: object) -> float:
    """Return the evaluations for values to compare with; scalars are looked up."""
    if not isinstance(value, list | dict):
        return 0.0
    inner = value if isinstance(value, list) else value.values()
    return len(value) / 16 + sum(
        1.0 + _values(one) for one in inner if isinstance(one, list | dict)
    )


_UNICODE_STATES, _WIDE_STATES = 700, 12
_PIECE = re.compile(
    r"""
    (?P<unicode>\\[pP])
  | (?P<wideclass>\\[WDSsbB])
  | (?P<escaped>\\.)
  | (?P<class>\[\^?(?:\\.|[^\]\\])*\]?)
  | (?P<open>\((?:\?(?P<flags>[a-zA-Z-]*[:)]|P?<[^>]*>|.))?)
  | (?P<close>\))
  | (?P<count>\{\s*(?P<least>\d*)\s*(?:,\s*(?P<most>\d*)\s*)?\})
  | (?P<wide>\.|[^\x00-\x7f])
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def automaton_states(pattern: str) -> int:
    """Return an upper bound of the states of a pattern's automaton, without look-around and
    back-references.

    If the library may read a pattern differently, the larger count is returned.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        return MAX_STATES
    groups, last, factor = [0], 0, 1
    for piece in _PIECE.finditer(pattern):
        kind, text = piece.lastgroup, piece[0]
        if piece["open"] is not None:
            flags = piece["flags"] or ""
            if flags.rstrip(":)").strip("-") and "<" not in flags:
                factor = _WIDE_STATES  # The group ignores case, or uses Unicode.
            if flags.endswith(")"):
                continue
            groups.append(0)
            last = 0
            continue
        if piece["close"] is not None:
            last = groups.pop() + 1
            if not groups:
                return MAX_STATES  # The pattern closes a group that it does not open.
            groups[-1] += last
            continue
        if piece["count"] is not None:
            most = max(int(number[:9] or 0) for number in (piece["least"], piece["most"] or ""))
            groups[-1] += last * max(0, most - 1)
            last *= max(1, most)
        else:
            last = _atom(kind or "", text)
            groups[-1] += last
        if groups[-1] > MAX_STATES:
            return MAX_STATES
    return min(MAX_STATES, factor * sum(groups))


def _atom(kind: str, text: str) -> int:
    """Return the states of one atom; `\\w` and `\\d` are ASCII here, and `\\W` any other
    character.
    """
    if kind == "unicode" or (kind == "class" and _CATEGORY.search(text)):
        return _UNICODE_STATES
    if kind in ("wide", "wideclass"):
        return _WIDE_STATES
    return _WIDE_STATES if kind == "class" and _WIDE_CLASS.search(text) else 1


_CATEGORY = re.compile(r"\\[pP]|\[:")
_WIDE_CLASS = re.compile(r"\[\^|\\[WDSsbBux]|[^\x00-\x7f]")
