"""Finds prose: docstrings, comments and texts in modules, paragraphs of pages, the contract.

One regular expression reads a module instead of `ast` and `tokenize`, which would take ten times as
long over the whole tree. It relies on the formatter: a docstring has three double quotes and begins
a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """The place of a piece of prose, which decides the rules that it has to keep."""

    MODULE = "docstring of a module"
    CLASS = "docstring of a class"
    FUNCTION = "docstring of a function"
    ATTRIBUTE = "docstring of an attribute or a property"
    COMMENT = "comment"
    TEXT = "text in code"
    PAGE = "page"
    CONTRACT = "contract"


DOCSTRINGS = {Kind.MODULE, Kind.CLASS, Kind.FUNCTION, Kind.ATTRIBUTE}


class Piece(NamedTuple):
    """A paragraph, comment, docstring or text, with the line on which it starts."""

    line: int
    kind: Kind
    text: str


_TOKEN = re.compile(
    r"(?P<comment>#[^\n]*(?:\n[ \t]*#[^\n]*)*)"
    r"|(?P<prefix>\b[rRbBfFuU]{1,2})?"
    r'(?:"""(?P<triple>(?:[^"\\]|\\.|"(?!""))*)"""'
    r"|'''(?:[^'\\]|\\.|'(?!''))*'''"
    r'|"(?P<double>(?:[^"\\\n]|\\.)*)"'
    r"|'(?P<single>(?:[^'\\\n]|\\.)*)')",
    re.DOTALL,
)
_OWNER = re.compile(r"^([ \t]*)(class|def|async def)\b", re.MULTILINE)
_OPEN = ("(", "[", "{", ",", "=", "|", "+", "\\", " in", " return", " or", " and", "%")
_NO_PROSE = re.compile(
    r"\b(SELECT|INSERT INTO|UPDATE [a-z_]+|DELETE FROM|CREATE|ALTER|GRANT|WHERE|VALUES)\b"
    r"|^\s*(from|import|def|class|@|\$|#!|\{|\[|<)|[;{]\s*\n|[a-z]\(\)"
)
_WORDS = re.compile(r"[A-Za-z'’-]+")


def of_module(source: str) -> Iterator[Piece]:
    """Yield the docstrings, the comments and the texts of three words and more of a module."""
    line, seen = 1, 0
    joined: list[str] = []
    joined_line = joined_end = 0
    for found in _TOKEN.finditer(source):
        start, end = found.span()
        line += source.count("\n", seen, start)
        seen = start
        if joined and not source[joined_end:start].isspace():
            yield from _text(joined_line, "".join(joined))
            joined = []
        kind = found.lastgroup
        if kind == "comment":
            yield from _comment(line, found["comment"])
            continue
        if kind == "triple" and (owner := _documented(source, start, end)):
            yield Piece(line, owner, found["triple"])
            continue
        value = found["triple"] or found["double"] or found["single"]
        if value is None or "b" in (found["prefix"] or "").lower():
            continue
        if not joined:
            joined_line = line
        joined.append(value)
        joined_end = end
    if joined:
        yield from _text(joined_line, "".join(joined))


def _documented(source: str, start: int, end: int) -> Kind | None:
    """Return the kind of docstring that a text in three quotes is; None for a value."""
    begin = source.rfind("\n", 0, start) + 1
    indent = source[begin:start]
    if indent.strip(" \t") not in ("", "r"):
        return None
    if source[end : end + 1] not in ("\n", "") and not source[end:].lstrip(" \t").startswith("\n"):
        return None
    before = source[:begin].rstrip()
    if not before or _only_comments(before):
        return Kind.MODULE
    last = before[before.rfind("\n") + 1 :]
    if not last.endswith(":") or last.lstrip().startswith("#"):
        return None if last.endswith(_OPEN) else Kind.ATTRIBUTE
    owners = [one for one in _OWNER.finditer(before, max(0, len(before) - 3000))]
    for owner in reversed(owners):
        if len(owner[1]) < len(indent):
            break
    else:
        return Kind.ATTRIBUTE
    if owner[2] == "class":
        return Kind.CLASS
    above = before[before.rfind("\n", 0, owner.start() - 1) + 1 : owner.start()].strip()
    return Kind.ATTRIBUTE if re.match(r"@(\w+\.)?(cached_)?property\b", above) else Kind.FUNCTION


def _only_comments(before: str) -> bool:
    return all(not line.strip() or line.startswith("#") for line in before.splitlines())


_DIRECTIVE = re.compile(r"^(type: ignore|noqa|pragma|pyright|mypy|!|fmt:|ruff|%|-\*-)")


def _comment(line: int, block: str) -> Iterator[Piece]:
    lines = [one.strip().removeprefix("#").strip() for one in block.split("\n")]
    kept = " ".join(one for one in lines if not _DIRECTIVE.match(one))
    if len(_WORDS.findall(kept)) >= 3:
        yield Piece(line, Kind.COMMENT, kept)


def _text(line: int, value: str) -> Iterator[Piece]:
    if value.count(" ") >= 2 and not _NO_PROSE.search(value):
        words = _WORDS.findall(value)
        letters = sum(map(len, words)) + len(words)
        if len(words) >= 3 and letters > 0.75 * len(value):
            yield Piece(line, Kind.TEXT, re.sub(r"\\[nt]", " ", value))


_LABEL = re.compile(r"^\*\*[^*]{1,40}[.:?]\*\*\s*")
"""A label in bold that begins a paragraph, such as “What to do.”, is a heading."""
_FENCE = re.compile(r"^\s*(```|~~~)")


def of_page(source: str) -> Iterator[Piece]:
    """Yield the paragraphs, list items and cells of tables of a page, without headings and code."""
    gathered: list[str] = []
    first = 0
    fenced = table = False
    for number, line in enumerate([*source.split("\n"), ""], 1):
        bare = line.strip()
        starts = re.match(r"([-*]|\d+\.)\s+", bare)
        ends = not bare or bare.startswith(("#", "|", "<", ">")) or starts
        if gathered and (ends or fenced or _FENCE.match(line)):
            yield Piece(first, Kind.PAGE, _LABEL.sub("", " ".join(gathered)))
            gathered = []
        if _FENCE.match(line):
            fenced = not fenced
        if fenced or _FENCE.match(line):
            continue
        if bare.startswith("|"):
            if table:
                cells = re.split(r"(?<!\\)\|", bare.strip("|"))
                yield from (
                    Piece(number, Kind.PAGE, cell.strip())
                    for cell in cells
                    if len(_WORDS.findall(cell)) >= 3
                )
            table = True
            continue
        table = False
        if bare and not bare.startswith(("#", "<")):
            if not gathered:
                first = number
            gathered.append(bare[starts.end() :] if starts else bare.lstrip("> "))


def of_contract(part: object) -> Iterator[str]:
    """Yield each summary and description in a part of the contract."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key in ("summary", "description") and isinstance(value, str):
                yield value
            elif key not in ("example", "examples", "default", "enum"):
                yield from of_contract(value)
    elif isinstance(part, list):
        for value in part:
            yield from of_contract(value)
