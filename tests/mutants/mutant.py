"""A mutant: the product with one rule broken, and the test that notices it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


class NotFoundOnce(Exception):
    """The text of an edit does not occur exactly once in its file; the message names it."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit that replaces `text`, which is exactly once in `file`.

    Paths begin at the project's root.
    """

    file: str
    text: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutant; `name` says in a few words how it misbehaves, and is unique.

    Exactly one of these is set; a run fails at a mutant with neither:

    - `killed_by`, the node id of a test that passes on the product and fails on the mutant;
    - `equivalent`, one line on why no caller can tell the mutant from the product.

    `trips` is the text of an assertion of the product that the mutant trips, and by which the test
        must fail then.

    `breaks` is the promise of docs/GUARANTEES.md that the mutant does not keep, as "P1".

    The test must fail by an assertion. `fails_with` names another exception by which it may fail
    (as pytest prints it), for a test that has no assertion to reach because the mutant raises.
    """

    name: str
    edits: tuple[Edit, ...]
    killed_by: str = ""
    breaks: str = ""
    equivalent: str = ""
    fails_with: str = ""
    trips: str = ""

    @property
    def test_file(self) -> str:
        """The path of the test that kills it."""
        return self.killed_by.partition("::")[0]

    @property
    def test_name(self) -> str:
        """The name of the function of that test, without parameters."""
        return self.killed_by.rpartition("::")[2].partition("[")[0]


def mutated(mutant: Mutant, root: Path) -> Mapping[str, str]:
    """Return the whole new text of each file that the mutant changes. Raises NotFoundOnce."""
    texts: dict[str, str] = {}
    for edit in mutant.edits:
        path = root / edit.file
        if edit.file not in texts:
            if not path.is_file():
                raise NotFoundOnce(f"{mutant.name}: there is no file {edit.file}")
            texts[edit.file] = path.read_text(encoding="utf-8")
        found = texts[edit.file].count(edit.text)
        if found != 1:
            raise NotFoundOnce(f"{mutant.name}: {found} times in {edit.file}: {edit.text!r}")
        texts[edit.file] = texts[edit.file].replace(edit.text, edit.replacement)
    return texts
