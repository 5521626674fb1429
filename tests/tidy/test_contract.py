"""The contract of the API is written once, and what is derived from it is up to date."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from openapi.__main__ import generated
from openapi.areas import AREAS, OPERATIONS
from openapi.assembly import Document
from openapi.common import CONFLICT, NOT_FOUND, RATE_LIMITED, Problem
from openapi.contract import Answer, Body, Operation, Parameter, Refusal
from openapi.json_schema import Schemas, prose
from openapi.refusals import refusals_of
from openapi.sdk.models import Keywords, Model, keywords_text, model_text


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_generated_files_are_up_to_date(path: object) -> None:
    text = {str(each): text for each, text in generated().items()}[str(path)]
    with open(str(path), encoding="utf-8") as file:
        assert file.read() == text, "run `make generate`"


def test_every_row_names_what_it_needs() -> None:
    for operation in OPERATIONS.values():
        words = operation.needs.split(" ")
        open_to_many = words[0] in ("public", "self")
        assert len(words) == (1 if open_to_many else 2), operation.id


def test_an_operation_has_each_status_once() -> None:
    for operation in OPERATIONS.values():
        statuses = [each.status for each in (*operation.answers, *refusals_of(operation))]
        assert len(statuses) == len(set(statuses)), operation.id


def test_areas_have_modules_of_their_own() -> None:
    assert sum(len(area.OPERATIONS) for area in AREAS) == len(OPERATIONS)


def test_every_field_has_a_sentence() -> None:
    """The sentence stands below the field, or with the type that many fields have."""
    document = Document()
    document.whole()
    missing = {
        kind.__name__: names
        for kind in document.schemas.classes.values()
        if (names := without_a_sentence(kind))
    }
    assert missing == {}, "describe these fields in openapi/"


def without_a_sentence(kind: type[msgspec.Struct]) -> list[str]:
    """Return the names of the fields of a class that nothing describes."""
    sentences = prose(kind)
    return [name for name in kind.__struct_fields__ if not sentences.get(name, "").strip()]


def test_the_rule_of_sentences_sees_what_it_is_about() -> None:
    assert without_a_sentence(Made) == ["size", "until", "note"]
    assert without_a_sentence(Listed) == ["state", "rank", "at", "note", "until"]
    assert without_a_sentence(Remade) == ["more"]


class Made(Body):
    """A thing that a test makes."""

    name: Annotated[str, Meta(min_length=1, pattern=r"^[a-z]+\Z")]
    """The name
    of it."""
    size: Annotated[int, Meta(ge=1, le=9)] = 3
    until: float | None = None
    note: str | UnsetType = UNSET


class Either(Body):
    EXACTLY_ONE = ("id", "ids")
    id: str | UnsetType = UNSET
    ids: list[str] | UnsetType = UNSET
    force: bool = False


class Shown(Made, kw_only=True):
    made: bool


Weight = Annotated[int, Meta(ge=0, description="The weight in grams.")]


class Remade(Answer):
    DESCRIBED_BY = Made

    name: str
    size: Weight | None
    until: float | None
    """The time of its end."""
    note: Annotated[Weight, Meta(le=9)]
    more: list[Weight]


class Told(Answer):
    size: int = 3
    extra: str | UnsetType = UNSET


class Listed(Answer):
    """A list."""

    state: Literal["open", "shut"]
    parts: list[Told]
    """The parts of the list."""
    rank: int
    at: datetime
    note: str | UnsetType = UNSET
    until: float | None = None


def test_a_class_as_json_schema() -> None:
    schemas = Schemas()
    assert schemas.of(Made) == {"$ref": "#/components/schemas/Made"}
    assert schemas.named["Made"] == {
        "type": "object",
        "description": "A thing that a test makes.",
        "required": ["name"],
        "properties": {
            "name": {
                "description": "The name of it.",
                "type": "string",
                "minLength": 1,
                "pattern": "^[a-z]+$",
            },
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            "until": {"type": ["number", "null"]},
            "note": {"type": "string"},
        },
        "additionalProperties": False,
    }


def test_bodies_without_a_choice_are_decoded_without_a_check() -> None:
    assert hasattr(Either, "__post_init__")
    assert not hasattr(Made, "__post_init__")


def test_exactly_one_of_several_fields() -> None:
    schemas = Schemas()
    schemas.of(Either)
    alternatives = schemas.named["Either"]["oneOf"]
    assert [each["required"] for each in alternatives] == [["id"], ["ids"]]
    assert [list(each["properties"]) for each in alternatives] == [
        ["id", "force"],
        ["ids", "force"],
    ]


def test_answers_always_have_what_has_a_default() -> None:
    schemas = Schemas()
    schemas.of(Told)
    assert schemas.named["Told"]["required"] == ["size"]


def test_a_subclass_has_the_descriptions_of_its_base() -> None:
    assert prose(Shown)["name"] == "The name of it."


def test_a_field_has_the_nearest_sentence() -> None:
    """Return the sentence below the field, else that of another class, else that of its type."""
    assert prose(Remade) == {
        "name": "The name of it.",
        "size": "The weight in grams.",
        "until": "The time of its end.",
        "note": "The weight in grams.",
    }


def test_a_type_that_may_be_null_keeps_its_sentence() -> None:
    told = Annotated[str | None, Meta(description="The token.")]
    assert Schemas().of(told) == {"description": "The token.", "type": ["string", "null"]}


def test_two_classes_of_one_name_are_refused() -> None:
    schemas = Schemas()
    schemas.of(Made)
    with pytest.raises(TypeError, match="both have a Made"):
        schemas.of(type("Made", (Body,), {}))


def _row(**members: object) -> Operation:
    row = Operation(id="x", route="GET /x/{name}", needs="read topic:name", summary="", answers=())
    return msgspec.structs.replace(row, **members)


def test_refusals_follow_from_the_row() -> None:
    plain = {each.status for each in refusals_of(_row())}
    assert plain == {400, 401, 403, 404, 429, 500, 503, 504}
    assert {each.status for each in refusals_of(_row(body=Made))} == plain | {408, 413, 422}
    assert refusals_of(_row(needs="public")) == []


def test_a_row_says_what_is_otherwise() -> None:
    gone = Refusal("Gone", 404, "It is gone.", Problem)
    told = refusals_of(_row(problems=(CONFLICT, gone), never=(RATE_LIMITED,)))
    assert gone in told
    assert CONFLICT in told
    assert NOT_FOUND not in told
    assert RATE_LIMITED not in told


def test_a_model_of_the_sdk() -> None:
    """A field that may be missing or null is None, an array is a tuple, a word is a string."""
    text = model_text(Model(Listed, etag=True, defaults={"rank": 0}))
    assert text.splitlines() == [
        "class Listed(msgspec.Struct, frozen=True):",
        '    """A list."""',
        "",
        "    state: str",
        "    at: datetime",
        "    parts: tuple[Told, ...] = ()",
        '    """The parts of the list."""',
        "    rank: int = 0",
        "    note: str | None = None",
        "    until: float | None = None",
        "    etag: str | None = None",
        '    """For `if_match`; None in a listing."""',
    ]


def test_a_model_may_differ_from_its_class() -> None:
    """A row says a name, a type, a default, a base and methods that the contract does not have."""
    base = Model(Told, without=("extra",), methods="Readable", options="kw_only=True")
    names = {"parts": "items"}
    model = Model(
        Listed,
        base=base,
        names=names,
        types={"state": "State", "note": "msgspec.Raw"},
        defaults={"note": msgspec.Raw(b"null"), "rank": 0},
        texts={"at": "The time of the list."},
        without=("until",),
    )
    assert model_text(base).splitlines()[0] == (
        "class Told(Readable, msgspec.Struct, frozen=True, kw_only=True):"
    )
    assert model_text(model).splitlines() == [
        "class Listed(Told, frozen=True):",
        '    """A list."""',
        "",
        "    state: State",
        '    items: tuple[Told, ...] = msgspec.field(name="parts")',
        '    """The parts of the list."""',
        "    at: datetime",
        '    """The time of the list."""',
        "    rank: int = 0",
        "    note: msgspec.Raw = msgspec.Raw(b'null')",
    ]


def test_a_model_may_have_the_defaults_of_a_request() -> None:
    """So the answer of an older server, which lacks a field, is read."""
    text = model_text(Model(Told, defaults_of=Made, always=("extra",), doc="A thing."))
    assert text.splitlines()[3:] == ["    extra: str", "    size: int = 3"]


class Sent(Body):
    """A thing that a test sends."""

    name: str
    state: Literal["open", "shut"] = "open"
    until: float | None = None


def test_a_model_of_a_request_has_the_defaults_of_the_contract() -> None:
    assert model_text(Model(Sent)).splitlines()[3:] == [
        "    name: str",
        '    state: Literal["open", "shut"] = "open"',
        "    until: float | None = None",
    ]


def test_keywords_may_be_the_parameters_of_a_query() -> None:
    query = (
        Parameter("", "from", "query", "The earliest time.", datetime),
        Parameter("", "state", "query", "The state.", Literal["open", "shut"], default="open"),
    )
    keywords = Keywords("Filter", query, "A choice of things.")
    assert keywords_text(keywords).splitlines()[3:] == [
        "    since: datetime",
        '    """The earliest time."""',
        '    state: Literal["open", "shut"]',
        '    """The state."""',
    ]


def test_keywords_are_the_fields_that_are_no_arguments_of_their_own() -> None:
    keywords = Keywords("Settings", Made, "Fields of a thing.", without=("name",))
    assert keywords_text(keywords).splitlines() == [
        "class Settings(TypedDict, total=False):",
        '    """Fields of a thing."""',
        "",
        "    size: int",
        "    until: float | None",
        "    note: str",
    ]
