"""The output of a command: results to stdout, in the requested format; notes for people to stderr.

`table` is for people and may change; `json`, `ndjson` and `yaml` are for programs, and their
members are those of the HTTP API. Nothing else ever goes to stdout.
"""

from __future__ import annotations

import enum
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

Record = Mapping[str, Any]
ROWS_AT_ONCE = 500
"""The rows of a table that are aligned with each other; a long table holds no more in memory."""
MAX_CELL_CHARS = 60
"""The limit of characters of a cell on a terminal; output to a pipe is never cut."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_PLAIN = re.compile(r"[A-Za-z/_][A-Za-z0-9 _./@+-]*(?<! )")
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_NOT_STRINGS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def yaml_text(value: object) -> str:
    """Return a JSON value as YAML, which ends with a line break.

    Strings are written plain only where YAML 1.1 and 1.2 both read them as that string; else they
    are quoted as in JSON, which is YAML too.
    """
    return "".join(f"{line}\n" for line in _yaml_lines(value))


def _yaml_lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _yaml_entry(f"{scalar(str(name))}:", inner, in_list=False)
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            yield from _yaml_entry("-", inner, in_list=True)
    else:
        yield scalar(value)


def _yaml_entry(head: str, inner: object, *, in_list: bool) -> Iterator[str]:
    if not isinstance(inner, dict | list | tuple) or not inner:
        yield f"{head} {scalar(inner)}"
        return
    lines = _yaml_lines(inner)
    if in_list:
        yield f"{head} {next(lines)}"
    else:
        yield head
    yield from (f"  {line}" for line in lines)


def scalar(value: object) -> str:
    """Return a value in one line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_STRINGS:
        return value
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and "." not in text:
        text = text.replace("e", ".0e")  # YAML 1.1 reads only a number with a dot as one
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Format(enum.StrEnum):
    """The values of `--output`."""

    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    YAML = "yaml"


class Output:
    """`quiet`: no notes, and of listings the names alone."""

    def __init__(self, form: Format = Format.TABLE, quiet: bool = False) -> None:
        self.format = form
        self.quiet = quiet

    @property
    def for_programs(self) -> bool:
        return self.format is not Format.TABLE

    def record(self, value: object) -> None:
        """Print one result."""
        if self.format is Format.JSON:
            self.text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
        elif self.format is Format.NDJSON:
            self.text(_line(value))
        else:
            self.text(yaml_text(value))

    def rows(self, rows: Iterable[Record], *columns: str) -> None:
        """Print a listing.

        A column is a member, or members with dots between; the first one names the row. `json` is
        one array, `ndjson` an object a line, `yaml` a document.
        """
        if self.format is Format.JSON:
            self._array(rows)
        elif self.format is Format.NDJSON:
            for row in rows:
                self.text(_line(row))
        elif self.format is Format.YAML:
            self._yaml_list(rows)
        elif self.quiet:
            for row in rows:
                self.text(shown(member(row, columns[0])) + "\n")
        else:
            self._table(iter(rows), columns)

    def note(self, text: str) -> None:
        """Tell people at a terminal what was done."""
        if not self.quiet and not self.for_programs:
            self.warning(text)

    def warning(self, text: str) -> None:
        """Print a text on stderr, in every format."""
        sys.stderr.write(printable(text) + "\n")

    def text(self, text: str) -> None:
        sys.stdout.write(text)

    def _array(self, rows: Iterable[Record]) -> None:
        before = "[\n"
        for row in rows:
            text = json.dumps(row, indent=2, ensure_ascii=False).replace("\n", "\n  ")
            self.text(f"{before}  {text}")
            before = ",\n"
        self.text("[]\n" if before == "[\n" else "\n]\n")

    def _yaml_list(self, rows: Iterable[Record]) -> None:
        empty = True
        for row in rows:
            self.text(yaml_text([row]))
            empty = False
        if empty:
            self.text("[]\n")

    def _table(self, rows: Iterator[Record], columns: tuple[str, ...]) -> None:
        terminal = sys.stdout.isatty()
        head = [re.sub("[._]", " ", column).upper() for column in columns]
        first = next(rows, None)
        if first is None:
            self.note("(none)")
            return
        rows = chain([first], rows)
        while chunk := list(islice(rows, ROWS_AT_ONCE)):
            cells = [[_cell(member(row, name), terminal) for name in columns] for row in chunk]
            widths = _widths([head, *cells])
            if head:
                text = _aligned(head, widths)
                self.text((f"\x1b[1m{text}\x1b[0m" if colored() else text) + "\n")
            self.text("".join(_aligned(row, widths) + "\n" for row in cells))
            head = []


def colored() -> bool:
    """Return whether to print colours on stdout: on a terminal, unless NO_COLOR is set
    (no-color.org).
    """
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def member(row: Record, name: str) -> Any:
    """`a.b` is the member b of the member a."""
    value: Any = row
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def shown(value: object) -> str:
    """Return a value in one line, for people."""
    if value is None or value in ({}, []):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={shown(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ",".join(shown(inner) for inner in value)
    return printable(str(value)).replace("\n", " ")


def printable(text: str) -> str:
    """Return a text without the characters that control a terminal."""
    return _CONTROL.sub("\ufffd", text)


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def _cell(value: object, terminal: bool) -> str:
    text = shown(value)
    return text[: MAX_CELL_CHARS - 1] + "…" if terminal and len(text) > MAX_CELL_CHARS else text


def _widths(rows: list[list[str]]) -> list[int]:
    from rich.cells import cell_len

    return [
        max(map(cell_len, column)) for column in zip(*(row for row in rows if row), strict=True)
    ]


def _aligned(row: list[str], widths: list[int]) -> str:
    from rich.cells import set_cell_size

    cells = (set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True))
    return "  ".join(cells).rstrip()
