"""Hostile requests that `make abuse` makes of the contract."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from tests.abuse import heavy
from tests.abuse.contract import JSON, Route, routes
from tests.abuse.inputs import Maker, placed

ROUTES = routes()
IDS: dict[str, str] = defaultdict(lambda: "a")
SIZE = 16 * 1024


def maker(route: Route) -> Maker:
    return Maker(route, IDS, "token", SIZE)


@pytest.mark.parametrize("key", ROUTES, ids=" ".join)
def test_each_route_has_inputs_that_end_where_they_say(key: tuple[str, str]) -> None:
    whats = []
    for one in maker(ROUTES[key]).inputs():
        head, _, body = one.make().partition(b"\r\n\r\n")
        first, *fields = head.split(b"\r\n")
        assert first.startswith(key[0].encode() + b" /"), one.what
        assert first.endswith(b" HTTP/1.1"), one.what
        lengths = [field for field in fields if field.lower().startswith(b"content-length:")]
        assert [int(field.partition(b":")[2]) for field in lengths] == [len(body)] * len(lengths)
        assert len(head) < 64 * 1024, one.what
        assert len(body) <= SIZE + 1, one.what
        whats.append(one.what)
    assert len(whats) >= 15
    assert "head many fields" in whats
    for kind in ROUTES[key].bodies:
        assert sum(what.startswith(f"body {kind}") for what in whats) >= 4
    for parameter in ROUTES[key].parameters:
        prefix = {"path": "path", "query": "query", "header": "head"}[parameter.where]
        assert any(f"{prefix} {parameter.name} " in f"{what} " for what in whats), parameter.name


def test_what_is_drawn_for_the_short_form_has_what_is_heavy() -> None:
    drawn = maker(ROUTES["POST", "/subscriptions/{name}/skip_rules"]).some(10, 1)
    assert [one.what for one in drawn] == [
        one.what for one in maker(ROUTES["POST", "/subscriptions/{name}/skip_rules"]).some(10, 1)
    ]
    assert sum(one.what.startswith("heavy field expression") for one in drawn) == 10
    assert len(drawn) == 20


def test_a_field_of_an_item_is_placed_in_a_list() -> None:
    good = {"messages": [{"data": 1}], "x": 2}
    assert placed(good, ("messages[]", "key"), "k") == {
        "messages": [{"data": 1, "key": "k"}],
        "x": 2,
    }
    assert placed({}, ("a", "b[]", "c"), 1) == {"a": {"b": [{"c": 1}]}}


def test_fields_of_items_and_of_objects_are_found() -> None:
    paths = {field.path for field in ROUTES["POST", "/topics/{topic}/messages:batch"].fields()}
    assert ("messages[]", "attributes") in paths
    assert JSON in ROUTES["POST", "/topics/{topic}/messages:batch"].bodies


def test_heavy_values_fit_into_what_they_are_sent_as() -> None:
    for what, text in heavy.expressions().items():
        assert len(text) <= heavy.MAX_EXPRESSION, what
    for what, definition in heavy.definitions().items():
        assert len(json.dumps(definition)) <= 256 * 1024, what
    members = heavy.stars("client:", 500)
    assert len(set(members)) == 500
    assert all(len(member) <= heavy.MAX_PATTERN for member in members)
