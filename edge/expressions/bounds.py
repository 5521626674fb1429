"""The limits of an expression, which make sure that it takes time linear in the message.

The engine has no limit of its own. Expressions that were measured to be worse than linear are
refused: lists that are built (`map` and `filter` copy the list for each element), loops in loops, a
loop that looks at the whole body again for each element, and patterns, which the engine compiles
anew for every evaluation (`\\w{100}` takes 36 ms).

The checks read the tokens of the scanner, and the engine compiles the text made of these
(tokens.py). A backslash in triple quotes is read as an escape, which in a raw string it is not: raw
strings in triple quotes are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from edge.expressions.tokens import Kind, Token, closing, string_of

MAX_ADDITIONS = 32
MAX_DATA = 32
MAX_PATTERN_WEIGHT = 400
_LOOPS = frozenset({"all", "exists", "exists_one"})
_BUILDERS = frozenset({"map", "filter"})
FUNCTIONS = frozenset(
    {"contains", "startsWith", "endsWith", "matches", "size", "has", "type", "dyn"}
    | {"int", "uint", "double", "string", "bytes", "timestamp", "duration"}
    | {"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
    | {"getHours", "getMinutes", "getSeconds", "getMilliseconds"}
)
_TYPES = frozenset({"int", "uint", "double", "string", "bytes", "bool", "type", "list", "map"})
_WORDS = frozenset({"true", "false", "null", "in"})
_COUNTED = re.compile(r"\{(\d*),?(\d*)\}")
_WIDE = re.compile(r"\.|\[\^")
_RAW_TRIPLE = re.compile(r"[bB]?[rR][bB]?(?:\"\"\"|''')")
_UNICODE_CLASS = re.compile(r"\\[wWdDsSbBpP]|\(\?[a-z]*[iu]")


class ExpressionRefused(ValueError):
    """The expression is refused; `at` is where the fault begins in the text."""

    def __init__(self, at: int, detail: str) -> None:
        super().__init__(detail)
        self.at = at
        self.detail = detail


def check(tokens: list[Token], variables: Collection[str]) -> None:
    """Check an expression against all limits. Raises ExpressionRefused."""
    _check_strings(tokens)
    loops = list(loops_of(tokens))
    bound: set[str] = set()
    for start, end in loops:
        bound.add(_check_loop(tokens, start, end, variables))
    _check_names(tokens, variables, bound)
    pattern_weight(tokens)
    _check_count(tokens, "+", MAX_ADDITIONS, "additions")
    _check_count(tokens, "data", MAX_DATA, "mentions of data")


def _check_strings(tokens: list[Token]) -> None:
    for token in tokens:
        if token.kind is Kind.STRING and _RAW_TRIPLE.match(token.text):
            detail = 'a raw string in triple quotes is not available; use r\'…\' or """…"""'
            raise ExpressionRefused(token.at, detail)


def _check_count(tokens: list[Token], text: str, most: int, what: str) -> None:
    found = [token for token in tokens if token.is_(text)]
    if len(found) > most:
        raise ExpressionRefused(found[most].at, f"at most {most} {what}")


def _called(tokens: list[Token], index: int) -> bool:
    return index + 1 < len(tokens) and tokens[index + 1].is_("(")


def _member(tokens: list[Token], index: int) -> bool:
    return index > 0 and tokens[index - 1].is_(".")


def loops_of(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    """Yield the indices of the brackets of each loop. Raises ExpressionRefused for one that builds
    a list.
    """
    for index, token in enumerate(tokens):
        if token.kind is Kind.NAME and _member(tokens, index) and _called(tokens, index):
            if token.text in _BUILDERS:
                raise ExpressionRefused(
                    token.at, f"{token.text} is not available; use exists or all"
                )
            if token.text in _LOOPS:
                yield index + 1, closing(tokens, index + 1)


def _check_loop(tokens: list[Token], opening: int, end: int, variables: Collection[str]) -> str:
    """Check a loop, and return the name that it binds. Raises ExpressionRefused."""
    name = tokens[opening + 1]
    if name.text in variables:
        raise ExpressionRefused(
            name.at, f"{name.text} is a variable of the message; take another name"
        )
    for index in range(opening + 2, end):
        token = tokens[index]
        if token.kind is not Kind.NAME:
            continue
        if _member(tokens, index):
            if token.text in _LOOPS:
                raise ExpressionRefused(token.at, "a loop inside a loop")
            if token.text == "matches" and _called(tokens, index):
                raise ExpressionRefused(token.at, "matches inside a loop")
        elif token.text == "data" and "data" in variables:
            raise ExpressionRefused(
                token.at, "data inside a loop: only the element may be looked at there"
            )
    return name.text


def _check_names(tokens: list[Token], variables: Collection[str], bound: set[str]) -> None:
    for index, token in enumerate(tokens):
        if token.kind is not Kind.NAME or token.text in _WORDS:
            continue
        if _called(tokens, index):
            if token.text not in FUNCTIONS and token.text not in _LOOPS:
                raise ExpressionRefused(token.at, f"there is no function {token.text}")
        elif _member(tokens, index):
            continue
        elif token.text not in variables and token.text not in bound | _TYPES:
            raise ExpressionRefused(
                token.at, f"there is no variable {token.text}; there are {', '.join(variables)}"
            )


def pattern_weight(tokens: list[Token]) -> int:
    """Return the weight of all patterns together.

    Raises ExpressionRefused for a pattern that may not be used.
    """
    weight = 0
    for index, token in enumerate(tokens):
        if not (token.is_("matches") and _called(tokens, index)):
            continue
        last = closing(tokens, index + 1)
        argument = tokens[last - 1]
        if last != index + 3 or argument.kind is not Kind.STRING:
            raise ExpressionRefused(token.at, 'matches takes one literal: key.matches("^a")')
        pattern = string_of(argument) or ""
        if _UNICODE_CLASS.search(pattern):
            detail = (
                r"a pattern without \w, \d, \s, \b, \p and (?i): name the characters, as in [0-9]"
            )
            raise ExpressionRefused(argument.at, detail)
        weight += _weight(pattern)
        if weight > MAX_PATTERN_WEIGHT:
            raise ExpressionRefused(
                argument.at,
                f"patterns over {MAX_PATTERN_WEIGHT}: characters, where . and [^] count ten, times"
                " repetition counts",
            )
    return weight


def _weight(pattern: str) -> int:
    """Return the time for compiling a pattern, in about half microseconds."""
    weight = len(pattern) + 9 * len(_WIDE.findall(pattern))
    for counts in _COUNTED.findall(pattern):
        weight *= max([int(count) for count in counts if count], default=1) or 1
        if weight > MAX_PATTERN_WEIGHT:
            break
    return weight
