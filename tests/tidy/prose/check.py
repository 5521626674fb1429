"""Judges all prose of the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import openapi
from tests.parts import ROOT
from tests.tidy.prose.english import Fault, judge
from tests.tidy.prose.gather import Kind, Piece, of_contract, of_module, of_page
from tests.tidy.sources import PARTS, name, text, tracked

HERE = Path(__file__).parent
GLOSSARY = "docs/glossary.md"
WITHOUT = {"CHANGELOG.md", GLOSSARY}
_GENERATED = re.compile(r"# Generated\b")
_TEXTS = {*PARTS, "deploy", "examples"}


class Source(NamedTuple):
    """A file, or a part of the contract, with its prose."""

    name: str
    pieces: tuple[Piece, ...]

    def faults(self) -> Iterator[Fault]:
        for piece in self.pieces:
            yield from judge(piece, instead())


@cache
def instead() -> Mapping[str, str]:
    """Return the words that the glossary forbids everywhere, each with the word to write."""
    found = {}
    for line in text(ROOT / GLOSSARY).splitlines():
        if line.startswith("| ") and line.count("|") == 4:
            word, _, others = (cell.strip() for cell in line.split("|")[1:4])
            for other in filter(None, map(str.strip, others.split(","))):
                if not other.endswith(")") and word != "word":
                    found[other.lower()] = word
    return found


def pieces_of(file: str, source: str) -> tuple[Piece, ...]:
    """Return the prose of a file; texts in code count where users can see them."""
    if file.endswith(".md"):
        return tuple(of_page(source))
    if _GENERATED.match(source):
        return ()
    seen = file.split("/")[0] in _TEXTS and "/migrations/" not in file
    return tuple(piece for piece in of_module(source) if seen or piece.kind is not Kind.TEXT)


def contract(document: Mapping[str, object]) -> Iterator[Source]:
    """Yield the prose of the contract, a source for each tag and for each schema."""
    gathered: dict[str, list[Piece]] = {}
    for operations in _mapping(document["paths"]).values():
        for operation in _mapping(operations).values():
            tags = _mapping(operation).get("tags") if isinstance(operation, dict) else None
            area = tags[0] if isinstance(tags, list) and tags else "all"
            for prose in of_contract(operation):
                gathered.setdefault(f"contract: {area}", []).append(Piece(0, Kind.CONTRACT, prose))
    for kind, parts in _mapping(document["components"]).items():
        for part, value in _mapping(parts).items():
            for prose in of_contract(value):
                gathered.setdefault(f"contract: {kind}/{part}", []).append(
                    Piece(0, Kind.CONTRACT, prose)
                )
    for area, pieces in gathered.items():
        yield Source(area, tuple(pieces))


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


@cache
def sources() -> tuple[Source, ...]:
    """Return all prose of the work tree."""
    files = (
        path for path in tracked() if path.suffix in (".py", ".md") and name(path) not in WITHOUT
    )
    return (
        *(Source(name(path), pieces_of(name(path), text(path))) for path in files),
        *contract(openapi.document()),
    )


def shown(source: Source, faults: Iterable[Fault]) -> str:
    """Return one line for each fault: the place, the rule, the sentence and how to mend it."""
    return "\n".join(
        f"{source.name}:{fault.line}: {fault.rule}: {fault.sentence}\n    {fault.advice}"
        for fault in faults
    )
