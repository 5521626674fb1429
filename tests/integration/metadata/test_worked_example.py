"""The worked example of CONTRIBUTING.md does what it says, with the edits that it shows."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from metadata.postgres.database_schema import REVISION
from tests.mutants.mutant import Edit, Mutant, mutated
from tests.mutants.running import Copy, copied
from tests.parts import ROOT

PAGE = ROOT / "CONTRIBUTING.md"
HEADING = "## Example: add a field to a subscription"
GENERATE = (("-m", "openapi"), ("sdk/python/generate_sync.py",))
"""The programs of `make generate`."""
PROGRAM = "tests.integration.metadata.worked_example"


@pytest.fixture
async def empty_url(postgres_url: str) -> AsyncIterator[str]:
    """Yield the URL of a database without tables."""
    server, _, _ = postgres_url.rpartition("/")
    admin = await asyncpg.connect(postgres_url)
    try:
        await admin.execute("CREATE DATABASE worked_example TEMPLATE template0")
        yield f"{server}/worked_example"
    finally:
        await admin.execute("DROP DATABASE worked_example WITH (FORCE)")
        await admin.close()


def test_a_generated_copy_has_the_field_of_the_example(empty_url: str) -> None:
    """The example takes at most three places, and nothing else is edited by hand."""
    edits = edits_of(PAGE.read_text(encoding="utf-8"))
    with copied(ROOT) as copy:
        applied(copy, edits)
        for program in GENERATE:
            code, output = copy.run(*program)
            assert code == 0, output
        code, output = copy.run("-m", PROGRAM, empty_url)
        assert code == 0, output


def test_the_example_has_three_places() -> None:
    """The places are the contract, the row with its migration, and the rule that uses the field."""
    edits = edits_of(PAGE.read_text(encoding="utf-8"))
    places = [file.split("/")[0] for file, _ in edits]
    assert places == ["openapi", "metadata", "metadata", "gateway"]


def edits_of(page: str) -> list[tuple[str, str]]:
    """Return the edits of the example: a file, and the lines of its diff."""
    newest = f"{REVISION}"
    following = f"{int(REVISION) + 1:04}"
    text = page.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]
    text = text.replace("NEWEST", newest).replace("NEXT", following)
    return re.findall(r"```diff\n(?:\+\+\+|---) (\S+)\n(.*?)```", text, re.DOTALL)


def applied(copy: Copy, edits: list[tuple[str, str]]) -> None:
    """Make the edits; the lines around those that are added must be there, once."""
    for file, diff in edits:
        lines = diff.splitlines()
        before = [line[1:] for line in lines if not line.startswith("+")]
        after = [line[1:] for line in lines if not line.startswith("-")]
        path = copy.path / file
        if not before:
            assert not path.exists(), f"{file} is there already"
            path.write_text(_text(after), encoding="utf-8")
            continue
        edit = Edit(file, _text(before), _text(after))
        for name, text in mutated(Mutant("the example", (edit,)), copy.path).items():
            Path(copy.path / name).write_text(text, encoding="utf-8")


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
