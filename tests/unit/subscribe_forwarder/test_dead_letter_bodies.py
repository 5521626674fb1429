"""Requests about dead letters are read strictly, and refused by field."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec
import pytest

from edge.problem import Problem
from metadata.subscriptions.dead_letters import DeadLetterPosition
from subscribe_forwarder.api.dead_letter_bodies import (
    discard_of,
    filter_of,
    page_of,
    redrive_of,
    uid_of,
    uids_of,
)
from subscribe_forwarder.api.dead_letter_search import _UNIX, place_of, token_of

UID = "0123456789abcdef0123456789abcdef"


def fields_of(refused: pytest.ExceptionInfo[Problem]) -> list[str]:
    return [error.field for error in refused.value.errors]


def redrive(**body: Any) -> Any:
    return redrive_of(msgspec.json.encode(body))


def test_without_a_body_all_go_back_to_the_subscription() -> None:
    for given in (redrive_of(b""), redrive_of(b"{}"), redrive(to="subscription")):
        spec = given.spec()
        assert (spec.filter, spec.uids, spec.destination, spec.rate) == (None, None, None, None)
        assert spec.edit == {}
    assert redrive(to="fixed", rate=0.5).spec().destination == "fixed"


def test_a_body_of_white_space_is_no_json() -> None:
    """The contract has no such body, and a redrive of everything is a large answer to one."""
    with pytest.raises(Problem) as refused:
        redrive_of(b"\n")
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"filter": "true", "ids": [UID]}, "ids"),
        ({"ids": [UID, "x"]}, "ids[1]"),
        ({"ids": [UID.upper()]}, "ids[0]"),
        ({"ids": []}, "ids"),
        ({"rate": 0}, "rate"),
        ({"edit": {"attributes": {"packetboat-dead-letter-reason": "x"}}}, "edit.attributes"),
        ({"edit": {"attributes": {"": "x"}}}, "edit.attributes"),
        ({"edit": {"attributes": {"é" * 129: "x"}}}, "edit.attributes"),
        ({"edit": {"attributes": {"a": "é" * 513}}}, "edit.attributes"),
        ({"edit": {"attributes": {str(n): "x" for n in range(101)}}}, "edit.attributes"),
        ({"edit": {"key": "é" * 513}}, "edit.key"),
        ({"edit": {"data": 1, "data_base64": "AA=="}}, "edit.data_base64"),
        ({"edit": {"data": 1, "content_type": "text/plain"}}, "edit.data"),
    ],
)
def test_what_does_not_fit_is_named(body: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        redrive(**body).spec()
    assert (refused.value.status, fields_of(refused)) == (422, [field])


@pytest.mark.parametrize("text", ["offset ==", "nothing == 1", "data.n == 1"])
async def test_a_filter_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        await filter_of({}, redrive(filter=text))
    assert (refused.value.status, fields_of(refused)) == (422, ["filter"])


@pytest.mark.parametrize(
    ("edit", "data", "content_type"),
    [
        ({"data": "text"}, b"text", "text/plain"),
        ({"data": {"a": 1}}, b'{"a":1}', "application/json"),
        ({"data": None}, b"null", "application/json"),
        ({"data": "x", "content_type": "application/json"}, b'"x"', "application/json"),
        ({"data": "x", "content_type": "text/csv"}, b"x", "text/csv"),
        ({"data_base64": "AP8="}, b"\x00\xff", None),
    ],
)
def test_data_is_as_in_a_batch(edit: dict[str, Any], data: bytes, content_type: str | None) -> None:
    changes = redrive(edit=edit).spec().edit
    assert b64decode(changes["data_base64"]) == data
    assert changes.get("content_type") == content_type


def test_only_what_is_given_changes() -> None:
    assert redrive(edit={"key": None}).spec().edit == {"key": None}
    assert redrive(edit={"attributes": {"a": None}}).spec().edit == {"attributes": {"a": None}}


def test_a_discard_says_what() -> None:
    with pytest.raises(Problem) as refused:
        discard_of(b"{}")
    assert fields_of(refused) == ["filter"]
    assert uids_of(discard_of(msgspec.json.encode({"ids": [UID]}))) == [bytes.fromhex(UID)]


@pytest.mark.parametrize("query", ["page_size=0", "page_size=1001", "page_size=x", "state=gone"])
async def test_a_listing_is_refused_by_parameter(query: str) -> None:
    with pytest.raises(Problem) as refused:
        await page_of({"query_string": query.encode()})
    assert (refused.value.status, fields_of(refused)) == (400, [query.partition("=")[0]])


def test_page_tokens_are_places_and_nothing_else() -> None:
    place = DeadLetterPosition(_UNIX.replace(year=2026, microsecond=123_456), bytes.fromhex(UID))
    assert place_of(token_of(place)) == place
    assert (place_of(None), token_of(None)) == (None, None)
    for text in ("", "x", "é", "AAAA", (token_of(place) or "")[:-4]):
        with pytest.raises(Problem) as refused:
            place_of(text)
        assert (refused.value.status, fields_of(refused)) == (400, ["page_token"])


def test_ids_are_as_they_are_shown() -> None:
    assert uid_of(UID) == bytes.fromhex(UID)
    assert [uid_of(text) for text in ("", "x", UID[:-1], UID + "00", " " + UID)] == [None] * 5
