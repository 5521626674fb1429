"""Prose is written for a reader who sees the project for the first time."""

from __future__ import annotations

from tests.tidy.prose import check
from tests.tidy.prose.check import HERE, instead, shown, sources
from tests.tidy.prose.english import judge
from tests.tidy.prose.gather import Kind, Piece, of_module, of_page

KINDS = {kind.name.lower(): kind for kind in Kind}


def examples(file: str) -> list[tuple[str, Piece]]:
    """Return the sentences of a file, each with the rule or the remark in front of it."""
    found = []
    for number, line in enumerate((HERE / file).read_text(encoding="utf-8").splitlines(), 1):
        if line and not line.startswith("#"):
            kind, rule, sentence = line.split(" | ", 2)
            found.append((rule, Piece(number, KINDS[kind], sentence)))
    return found


def test_bad_sentences_are_caught() -> None:
    examined = examples("bad.txt")
    assert len(examined) > 80
    missed = [
        f"bad.txt:{piece.line}: {piece.text}"
        for rule, piece in examined
        if rule not in {fault.rule.split(":")[0] for fault in judge(piece, instead())}
    ]
    assert missed == []


def test_good_sentences_pass() -> None:
    examined = examples("good.txt")
    assert len(examined) > 40
    refused = [fault for _, piece in examined for fault in judge(piece, instead())]
    assert refused == []


def test_prose_is_plain() -> None:
    found = [shown(source, faults) for source in sources() if (faults := list(source.faults()))]
    assert not found, "\n".join(["prose to mend:", *found])


def test_the_glossary_passes_its_own_rules() -> None:
    page = (check.ROOT / check.GLOSSARY).read_text(encoding="utf-8")
    assert [fault for piece in of_page(page) for fault in judge(piece, {})] == []
    assert instead()["undertaker"] == "dead-letter writer"


MODULE = '''"""A module.

It has a second paragraph.
"""

LIMIT = 3
"""Of one page."""
QUERY = """
SELECT name FROM topics
"""


class Kept:
    """What is kept."""

    @property
    def size(self) -> int:
        """Whether it fits."""

    async def read(
        self, name: str
    ) -> str:
        """By name."""
        # What waits is told: in its
        # turn, as ever.
        raise Problem(409, "Who comes late"
                      " gets none of it.", f"a {name} is here")
'''


def test_the_prose_of_a_module_is_found_with_its_place() -> None:
    assert [(piece.line, piece.kind) for piece in of_module(MODULE)] == [
        (1, Kind.MODULE),
        (7, Kind.ATTRIBUTE),
        (14, Kind.CLASS),
        (18, Kind.ATTRIBUTE),
        (23, Kind.FUNCTION),
        (24, Kind.COMMENT),
        (26, Kind.TEXT),
        (27, Kind.TEXT),
    ]
    assert [piece.text for piece in of_module(MODULE)][-3:-1] == [
        "What waits is told: in its turn, as ever.",
        "Who comes late gets none of it.",
    ]


def test_only_a_header_exempts_a_generated_file() -> None:
    for written in ("made of parts", "whose fields are generated"):
        assert check.pieces_of("a.py", f'"""A value, {written}."""\n')
    assert not check.pieces_of("a.py", '# Generated from openapi/.\n"""What it is."""\n')


def test_of_a_page_headings_code_and_heads_of_tables_do_not_count() -> None:
    page = "# What it is\n\nOne\ntwo.\n\n```\nwhat is code\n```\n\n| what it is |\n|---|\n"
    page += "| one of these |\n"
    assert [(piece.line, piece.text) for piece in of_page(page)] == [
        (3, "One two."),
        (12, "one of these"),
    ]
