"""Patches are made from puts, and merged into them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from edge.problem import Problem
from gateway.http.merge_patch import merged_into
from openapi.contract import Body
from openapi.json_schema import Schemas
from openapi.patch import patch_of

Tags = Annotated[dict[str, str], Meta(max_length=2)]


class Key(Body):
    """A key."""

    secret: str
    hint: str | None = "none"


class Wheel(Body):
    """A wheel of a car."""

    inches: Annotated[int, Meta(ge=1, le=40)] = 17
    """The width of the wheel."""
    winter: str | None = None


class CarPut(Body):
    """A car as a whole."""

    FIXED = ("plate",)
    owner: str
    """The person who pays."""
    plate: str | UnsetType = UNSET
    doors: Annotated[int, Meta(ge=2)] = 4
    wheel: Wheel = msgspec.field(default_factory=Wheel)
    key: Key | None = None
    paint: str | UnsetType = UNSET
    tags: Tags = msgspec.field(default_factory=dict)
    until: float | None = msgspec.field(default=9.5, name="to")


CarPatch = patch_of(CarPut)


def car() -> CarPut:
    return CarPut("ada", "AB 1", 2, Wheel(19, "spiked"), Key("s"), "red", {"a": "1"}, 3.5)


def patched(body: dict[str, Any]) -> CarPut:
    return merged_into(msgspec.convert(body, CarPatch), car())


def test_a_patch_has_the_limits_and_the_descriptions_of_the_put() -> None:
    schemas = Schemas()
    schemas.of(CarPatch)
    properties = schemas.named["CarPatch"]["properties"]
    assert "required" not in schemas.named["CarPatch"]
    assert properties["owner"] == {"description": "The person who pays.", "type": "string"}
    assert properties["plate"] == {"type": "string"}
    assert properties["doors"] == {"type": ["integer", "null"], "minimum": 2}
    assert properties["paint"] == {"type": ["string", "null"]}
    assert properties["tags"]["additionalProperties"] == {"type": ["string", "null"]}
    assert properties["tags"]["maxProperties"] == 2
    assert "`plate` cannot be changed" in schemas.named["CarPatch"]["description"]
    assert schemas.named["WheelPatch"]["properties"]["inches"]["maximum"] == 40
    assert set(properties) == {
        *("owner", "plate", "doors", "wheel", "key", "paint", "tags", "to"),
    }


def test_a_member_that_is_not_named_stays() -> None:
    assert patched({}) == car()
    assert patched({"owner": "bob", "wheel": {"inches": 18}}) == msgspec.structs.replace(
        car(), owner="bob", wheel=Wheel(18, "spiked")
    )


def test_null_is_null_or_the_default_of_the_put() -> None:
    after = patched({"doors": None, "paint": None, "to": None, "wheel": {"inches": None}})
    assert (after.doors, after.paint, after.until) == (4, UNSET, None)
    assert after.wheel == Wheel(17, "spiked")
    assert patched({"wheel": None, "key": None}).wheel == Wheel()
    assert patched({"key": None}).key is None
    assert patched({"key": {"hint": None}}).key == Key("s", None)


def test_a_member_without_a_value_gets_one() -> None:
    unpainted = msgspec.structs.replace(car(), paint=UNSET)
    assert merged_into(msgspec.convert({"paint": "blue"}, CarPatch), unpainted).paint == "blue"


def test_null_takes_an_entry_out_of_a_map() -> None:
    assert patched({"tags": {"a": None, "b": "2"}}).tags == {"b": "2"}
    assert patched({"tags": None}).tags == {}


@pytest.mark.parametrize(
    "body",
    [
        {"owner": None},
        {"plate": None},
        {"doors": 1},
        {"wheel": {"inches": 41}},
        {"wheel": {"spokes": 3}},
        {"key": {"secret": None}},
        {"colour": "red"},
    ],
)
def test_a_patch_takes_what_the_put_takes(body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, CarPatch)


def test_the_whole_is_refused_where_it_does_not_fit() -> None:
    with pytest.raises(Problem) as refused:
        patched({"tags": {"b": "2", "c": "3"}})
    assert [error.field for error in refused.value.errors] == ["tags"]
    keyless = msgspec.structs.replace(car(), key=None)
    with pytest.raises(Problem) as refused:
        merged_into(msgspec.convert({"key": {"hint": "x"}}, CarPatch), keyless)
    assert [error.field for error in refused.value.errors] == ["key.secret"]
