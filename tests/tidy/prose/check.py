"""Judges all prose of the repository, except files on the list of those that do not pass yet.

`unmended.txt` names those files, each with a fingerprint of its prose. Their code may change, and a
file may move; a file whose prose changes has to pass. Where prose only moves to a new file, run
`python -m tests.tidy.prose --write` before the commit: both files stay on the list.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import openapi
from tests.parts import ROOT
from tests.tidy.prose.english import Fault, judge
from tests.tidy.prose.gather import Kind, Piece, of_contract, of_module, of_page
from tests.tidy.sources import PARTS, name, text, tracked

HERE = Path(__file__).parent
LIST = HERE / "unmended.txt"
GLOSSARY = "docs/glossary.md"
OPEN = "# open"
"""The first line of a list that is not enforced."""
COMMAND = "python -m tests.tidy.prose"
WITHOUT = {"CHANGELOG.md", GLOSSARY}
_GENERATED = re.compile(r"# Generated\b")
_TEXTS = {*PARTS, "deploy", "examples"}


class Source(NamedTuple):
    """A file, or a part of the contract, with its prose."""

    name: str
    pieces: tuple[Piece, ...]

    @property
    def fingerprint(self) -> str:
        """A digest of the words: order of paragraphs, line breaks and code do not count."""
        texts = sorted({_words(piece) for piece in self.pieces})
        return blake2b("\n".join(texts).encode(), digest_size=6).hexdigest()

    def faults(self) -> Iterator[Fault]:
        for piece in self.pieces:
            yield from judge(piece, instead())


def _words(piece: Piece) -> str:
    words = re.sub(r"\{[^{}]*\}", "{}", piece.text) if piece.kind is Kind.TEXT else piece.text
    return " ".join(words.split())


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


class Ledger(NamedTuple):
    """The list of sources that do not pass yet, with the fingerprints of their prose."""

    is_open: bool
    entries: Mapping[str, str]

    @classmethod
    def read(cls) -> Ledger:
        lines = LIST.read_text(encoding="utf-8").splitlines()
        entries = dict(line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return cls(any(line.startswith(OPEN) for line in lines), entries)

    def write(self) -> None:
        head = [f"{OPEN}: not enforced until `{COMMAND} --take` has run"] if self.is_open else []
        lines = [f"{one} {mark}" for one, mark in sorted(self.entries.items())]
        LIST.write_text("\n".join([*head, *lines, ""]), encoding="utf-8")

    def judged(self, found: Iterable[Source]) -> Iterator[tuple[Source, list[Fault]]]:
        """Yield the sources that have to pass and do not, with their faults."""
        exempt = set(self.entries.values())
        for source in found:
            if source.fingerprint not in exempt and (faults := list(source.faults())):
                yield source, faults

    def stale(self, found: Iterable[Source]) -> list[str]:
        """Return entries that have to go: their source passes, changed, moved or is gone."""
        faulty = {
            source.name: mark
            for source in found
            if (mark := source.fingerprint) == self.entries.get(source.name)
            and next(source.faults(), None)
        }
        return sorted(self.entries.keys() - faulty.keys())

    def shrunk(self, found: Iterable[Source]) -> Ledger:
        """Return the list without what passes or was edited; prose that only moved stays exempt."""
        marks = set(self.entries.values())
        present = {source.name: source for source in found}
        changed = [
            one
            for one, mark in self.entries.items()
            if one not in present or present[one].fingerprint != mark
        ]
        before = {_words(piece) for one in changed for piece in _committed(one)}
        entries = {}
        for source in present.values():
            if not next(source.faults(), None):
                continue
            kept = source.name in self.entries
            moved = all(
                _words(piece) in before
                for piece in source.pieces
                if kept or next(judge(piece, instead()), None)
            )
            if source.fingerprint in marks or (before and moved):
                entries[source.name] = source.fingerprint
        return Ledger(self.is_open, entries)


def _committed(file: str) -> tuple[Piece, ...]:
    """Return the prose of a file in the last commit."""
    shown = subprocess.run(
        ["git", "-c", "safe.directory=*", "show", f"HEAD:{file}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    return pieces_of(file, shown.stdout) if shown.returncode == 0 else ()


def taken(found: Iterable[Source]) -> Ledger:
    """Return a list of all sources that do not pass now."""
    return Ledger(False, {one.name: one.fingerprint for one in found if next(one.faults(), None)})


def shown(source: Source, faults: Iterable[Fault]) -> str:
    """Return one line for each fault: the place, the rule, the sentence and how to mend it."""
    return "\n".join(
        f"{source.name}:{fault.line}: {fault.rule}: {fault.sentence}\n    {fault.advice}"
        for fault in faults
    )
