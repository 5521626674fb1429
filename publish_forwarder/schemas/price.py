"""What it may cost to compile a JSON Schema and to check a body with it, known before it is done.

A definition is a tree: some of its subschemas look at one value of a body, others at each of as
many as the body has (those of `items`, `additionalProperties` and so on). With the number of bytes
of a body, which has at most half as many values, that bounds what the library does. The automaton
of a pattern is run over the texts of a body, at worst with all of its states at once.

The constants are times of one slow core, a little above what was measured there. What is cheap is
done on the event loop, all else in a worker process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

HERE_NS = 12e6
"""What one piece of work may cost on the event loop."""
EXPLAIN_NS = 500e6
"""What it may cost, in a worker, to say what is wrong with a body."""
MAX_STATES = 10**7
MAX_PATTERN_CHARS = 4_096
"""Longer ones are not gone through here, they are dear in any case."""
_BYTE_NS = 150.0
"""Of a body: decoded, gone through, and handed to the library."""
_EVALUATION_NS = 15.0
_STATE_NS = 55.0
"""Of each state for each byte of a text."""
_ERROR_NS = 12_000.0
_COPIED_BYTE_NS = 25.0
_TEXT_NS = 130.0
"""Of each byte of a definition."""
_BUILT_STATE_NS = 1_000.0
_FORMAT, _PATTERN, _UNIQUE, _MULTIPLE = 100.0, 20.0, 20.0, 1_200.0
"""Evaluations that a keyword stands for. A large number becomes a fraction for `multipleOf`."""
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
"""Keywords of which a subschema looks at any number of values."""


class Price(NamedTuple):
    """`once`: evaluations of one value; `each`: of each value that a body has; `states` of all
    patterns together."""

    once: float = 0.0
    each: float = 0.0
    states: float = 0.0

    def and_within(self, keyword: str, inner: Price) -> Price:
        """With a subschema of that keyword."""
        if keyword in _OF_EACH:
            inner = Price(0.0, inner.once + inner.each, inner.states)
        return Price(self.once + inner.once, self.each + inner.each, self.states + inner.states)

    def compile_ns(self, text_bytes: int) -> float:
        return text_bytes * _TEXT_NS + self.states * _BUILT_STATE_NS

    def check_ns(self, size_bytes: int) -> float:
        evaluations = self.once + self.each * size_bytes / 2
        return size_bytes * (_BYTE_NS + self.states * _STATE_NS) + evaluations * _EVALUATION_NS

    def explain_ns(self, size_bytes: int) -> float:
        """To find all errors, which the library does or does not do. Each has a copy of its
        value."""
        errors = self.once + self.each * size_bytes / 2
        return errors * _ERROR_NS + self.once * size_bytes * _COPIED_BYTE_NS


def of_keywords(schema: Mapping[str, Any]) -> Price:
    """Of one schema without its subschemas."""
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
    """Of what a value is compared with; scalars are looked up."""
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
    """At most so many states has the automaton of a pattern without look-around and
    back-references. It may be fewer: where the two may read a pattern differently, this one
    counts more."""
    if len(pattern) > MAX_PATTERN_CHARS:
        return MAX_STATES
    groups, last, factor = [0], 0, 1
    for piece in _PIECE.finditer(pattern):
        kind, text = piece.lastgroup, piece[0]
        if piece["open"] is not None:
            flags = piece["flags"] or ""
            if flags.rstrip(":)").strip("-") and "<" not in flags:
                factor = _WIDE_STATES  # Without regard to case, or Unicode.
            if flags.endswith(")"):
                continue
            groups.append(0)
            last = 0
            continue
        if piece["close"] is not None:
            last = groups.pop() + 1
            if not groups:
                return MAX_STATES  # It does not close what it opens.
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
    """`\\w` and `\\d` are ASCII here, what is not of them is any other character."""
    if kind == "unicode" or (kind == "class" and _CATEGORY.search(text)):
        return _UNICODE_STATES
    if kind in ("wide", "wideclass"):
        return _WIDE_STATES
    return _WIDE_STATES if kind == "class" and _WIDE_CLASS.search(text) else 1


_CATEGORY = re.compile(r"\\[pP]|\[:")
_WIDE_CLASS = re.compile(r"\[\^|\\[WDSsbBux]|[^\x00-\x7f]")
