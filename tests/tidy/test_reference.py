"""The reference of the API says types and limits in words, and its links lead somewhere."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, UnsetType

from openapi.__main__ import generated
from openapi.areas import OPERATIONS
from openapi.contract import Body
from openapi.in_words import in_words
from openapi.json_schema import Schemas
from openapi.reference import HEADER, PAGES, anchor, fields_of, presence

TEXTS = {path.name: text for path, text in generated().items() if path.parent == PAGES}


class Part(Body):
    EXACTLY_ONE = ("id", "ids")
    id: str | UnsetType = UNSET
    ids: list[str] | UnsetType = UNSET
    force: bool = False


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Any, "any JSON"),
        (Annotated[str, Meta(min_length=1)], "string, not empty"),
        (Annotated[str, Meta(min_length=1, max_length=9)], "string, 1 to 9 characters"),
        (Annotated[str, Meta(pattern="^(a|b)$")], r"string, matches `^(a\|b)$`"),
        (Annotated[int, Meta(ge=0, le=8_388_608)], "integer, 0 to 8,388,608"),
        (Annotated[float, Meta(gt=0, le=1)], "number, more than 0, at most 1"),
        (Annotated[list[int], Meta(max_length=3)], "list of integer, at most 3 items"),
        (list[Annotated[int, Meta(ge=1)]], "list of integer (1 or more)"),
        (dict[str, Part | None], "map of [Part] or null"),
        (Literal["a", "b", "c"], "`a`, `b` or `c`"),
        (Literal["a", "b"] | None, "`a`, `b` or null"),
        (bytes, "base64"),
    ],
)
def test_types_in_words(kind: Any, words: str) -> None:
    assert in_words(Schemas().of(kind), lambda name: f"[{name}]") == words


def test_a_limit_without_words_is_an_error() -> None:
    with pytest.raises(TypeError, match="multipleOf"):
        in_words({"type": "integer", "multipleOf": 5}, str)


def test_a_choice_has_each_field_once_and_requires_none_of_it() -> None:
    schemas = Schemas()
    schemas.of(Part)
    fields = [(name, required) for name, _, required in fields_of(schemas.named["Part"])]
    assert fields == [("id", False), ("force", False), ("ids", False)]


def test_defaults_are_json() -> None:
    assert presence(True, {"type": "string"}) == "required"
    assert presence(False, {"type": "string", "default": "x"}) == 'default `"x"`'
    assert presence(False, {"type": "string"}) == ""


def test_each_operation_and_object_has_its_place() -> None:
    headings = [line for text in TEXTS.values() for line in text.splitlines() if line[:1] == "#"]
    for operation in OPERATIONS.values():
        assert headings.count(f"## {operation.route}") == 1
    names = [heading[4:] for heading in headings if heading.startswith("### ")]
    assert len(names) == len(set(names)) > 200


@pytest.mark.parametrize("page", TEXTS)
def test_links_within_the_reference_lead_to_a_heading(page: str) -> None:
    anchors = {name: anchors_of(text) for name, text in TEXTS.items()}
    for target, name in re.findall(r"\]\(([\w.-]*)#([^)]+)\)", TEXTS[page]):
        assert name in anchors[target or page], (target, name)


def anchors_of(text: str) -> list[str]:
    """Return the anchors of the headings of a page. Each is there once."""
    found = [anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    assert len(found) == len(set(found))
    return found


def test_no_page_of_the_reference_is_written_by_hand() -> None:
    assert {path.name for path in PAGES.iterdir()} == TEXTS.keys(), "delete what is not generated"
    assert all(text.startswith(HEADER) for text in TEXTS.values())
