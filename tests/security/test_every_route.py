"""Row 24 of the fault matrix: operations × unauthorized callers × ids.

It covers every operation of the contract, every kind of caller without a right to it, and every
kind of id. A caller gets the same answer about another tenant's resources as if they did not exist,
and nothing of them changes.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import requests

from tests.e2e.installation import Installation
from tests.security.operations import Operation, absent, operations
from tests.security.tenants import Actor, Victim, new_tenant

OPERATIONS = operations()
FREE = {"acquireLock": 200, "renewLock": 409, "releaseLock": 204, "claimTasks": 200}
"""Operations that succeed for every tenant, since names are free in each.

A lock that nobody in the tenant holds can be acquired, and a pool that nobody there uses is empty.
"""
KINDS = (
    *("topics", "subscriptions", "schemas", "schedules", "snapshots", "locks"),
    *("jobs", "pools", "exports"),
)
ABOVE_TENANTS = ("operate", "run_exports")
PERMISSIONS = ("publish", "consume", "lock", "read", "manage", "administer")
FORGED = (
    "garbage",
    "pbdev_" + "A" * 43,
    "pbk_" + "A" * 12 + "_" + "A" * 43,
    "eyJhbGciOiJub25lIn0.eyJpc3MiOiJwYWNrZXRib2F0In0.AA",
)


@pytest.fixture(scope="module")
def victim(running: Installation) -> Victim:
    return Victim(running)


@pytest.fixture(scope="module")
def stranger(running: Installation) -> Actor:
    """Return the owner of another tenant."""
    return new_tenant(running)[1]


@pytest.fixture(scope="module")
def bystander(running: Installation) -> Actor:
    """Return the owner of a third tenant.

    It never names anything of the victim: an audit shows its owner the names in requests.
    """
    return new_tenant(running)[1]


@pytest.fixture(scope="module", autouse=True)
def untouched(victim: Victim, nobody: Actor, lacking: dict[str, Actor], elsewhere: Actor) -> Any:
    """Check after all tests of this module that the victim, with those callers, has not changed."""
    before = victim.state()
    yield
    assert victim.state() == before


def send(actor: Actor, operation: Operation, ids: dict[str, str]) -> requests.Response:
    answer: requests.Response = actor.ask(**operation.request(ids))
    return answer


def leaked(victim: Victim, answer: requests.Response) -> set[str]:
    """Return the strings of the victim in the answer that were not in the request."""
    asked = f"{answer.request.url} {answer.request.body!r}"
    told = answer.text + str(answer.headers)
    return {one for one in victim.strings() if one in told and one not in asked}


def plain(answer: requests.Response, ids: dict[str, str]) -> tuple[int, str]:
    """Return status and text of an answer, without the names in this very request."""
    text = re.sub(r'"instance":"[^"]*"', "", answer.text)
    for value in sorted(ids.values(), key=len, reverse=True):
        text = text.replace(value, "X")
    return answer.status_code, text


by_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.id)


@by_operation
def test_without_a_token(operation: Operation, victim: Victim) -> None:
    for token in (None, *FORGED):
        answer = send(Actor(victim.owner.url, token), operation, victim.ids)
        assert answer.status_code == 401, (token, answer.text)
        assert leaked(victim, answer) == set()


@by_operation
def test_with_a_token_of_another_tenant(
    operation: Operation, victim: Victim, stranger: Actor, bystander: Actor
) -> None:
    answer = send(bystander if operation.lists else stranger, operation, victim.ids)
    assert leaked(victim, answer) == set()
    if any(f"'{permission}'" in answer.text for permission in ABOVE_TENANTS):
        assert answer.status_code == 403
    elif operation.id in FREE:
        assert answer.status_code == FREE[operation.id], answer.text
        stranger.ask("DELETE", f"/locks/{victim.ids['lock']}")
    elif operation.by_leases:
        require_lost(answer)
    elif operation.lists:
        assert answer.status_code == 200, answer.text
    elif operation.makes:
        # In its own tenant; a schedule needs a topic there, and so does an export.
        needs_topic = operation.id in ("createSchedule", "createExport")
        assert answer.status_code == (422 if needs_topic else 201)
    else:
        assert answer.status_code == (412 if operation.method == "PUT" else 404), answer.text
        nothing = absent(victim.ids)
        same = send(stranger, operation, nothing)
        assert plain(answer, victim.ids) == plain(same, nothing)


def require_lost(answer: requests.Response) -> None:
    """Check that nothing was done with a lease of another tenant."""
    assert answer.status_code == 200, answer.text
    assert answer.json()["done"] == 0
    assert [one["type"].rpartition("/")[2] for one in answer.json()["results"]] == ["lease-lost"]
    assert not answer.json().get("cancelled")


@pytest.fixture(scope="module")
def nobody(victim: Victim) -> Actor:
    return victim.owner.client()


@pytest.fixture(scope="module")
def lacking(victim: Victim) -> dict[str, Actor]:
    """Return keys with all permissions but one."""
    return {
        one: victim.owner.key(*(each for each in PERMISSIONS if each != one)) for one in PERMISSIONS
    }


@by_operation
def test_without_the_permission(
    operation: Operation, victim: Victim, nobody: Actor, lacking: dict[str, Actor]
) -> None:
    answer = send(nobody, operation, victim.ids)
    assert leaked(victim, answer) - {victim.tenant} == set()
    if operation.id == "whoAmI":
        assert answer.status_code == 200
        assert answer.json()["grants"] == []
        return
    assert answer.status_code == 403, answer.text
    (needed,) = re.findall(r"lacks the permission '(\w+)'", answer.text)
    if needed in ABOVE_TENANTS:
        answer = send(victim.owner, operation, victim.ids)
    else:
        answer = send(lacking[needed], operation, victim.ids)
    assert answer.status_code == 403, answer.text
    assert leaked(victim, answer) - {victim.tenant} == set()


@pytest.fixture(scope="module")
def elsewhere(victim: Victim) -> Actor:
    """Return a caller that may do everything in the victim's tenant, on names that the victim has
    not.
    """
    scopes = [f"{each}:{kind}/elsewhere-*" for each in PERMISSIONS for kind in KINDS]
    return victim.owner.key(*scopes)


@by_operation
def test_with_a_pattern_that_does_not_match(
    operation: Operation, victim: Victim, elsewhere: Actor
) -> None:
    answer = send(elsewhere, operation, victim.ids)
    assert leaked(victim, answer) - {victim.tenant} == set()
    # Some lists show the resources that a caller may read, which are none here.
    if operation.id == "whoAmI" or (operation.lists and answer.status_code == 200):
        assert not any(isinstance(one, list) and one for one in answer_lists(answer, operation))
    elif operation.by_leases:
        require_lost(answer)
    else:
        assert answer.status_code == 403, answer.text


def answer_lists(answer: requests.Response, operation: Operation) -> list[object]:
    if operation.id in ("whoAmI", "streamBacklogs"):
        return []
    return list(answer.json().values())


IN_ANOTHERS = [
    ("GET", "/topics/{my_topic}/messages/{message}", None),
    ("GET", "/topics/{my_topic}/messages/{message}/ack", None),
    ("DELETE", "/topics/{my_topic}/messages/{staged}", None),
    ("PATCH", "/topics/{my_topic}/messages/{staged}", {"delay_seconds": 1}),
    ("GET", "/topics/{my_topic}/subscriptions/{subscription}", None),
    ("GET", "/topics/{topic}/subscriptions/{my_subscription}", None),
    ("GET", "/subscriptions/{my_subscription}/dead_letters/{letter}", None),
    ("GET", "/subscriptions/{my_subscription}/redrives/{redrive}", None),
    ("POST", "/subscriptions/{my_subscription}/redrives/{redrive}:cancel", None),
    ("DELETE", "/subscriptions/{my_subscription}/skip_rules/{rule}", None),
    ("DELETE", "/clients/founder/secrets/{prefix}", None),
]
"""Ids of the victim in paths of one's own."""


@pytest.fixture(scope="module")
def own(stranger: Actor) -> dict[str, str]:
    stranger.post("/topics", 201, name="mine", partitions=1)
    stranger.post("/topics/mine/subscriptions", 201, name="mine", start="earliest")
    return {"my_topic": "mine", "my_subscription": "mine"}


@pytest.mark.parametrize(("method", "path", "body"), IN_ANOTHERS)
def test_ids_of_another_tenant_in_one_s_own_paths(
    method: str, path: str, body: Any, victim: Victim, stranger: Actor, own: dict[str, str]
) -> None:
    answer = stranger.ask(method, path.format(**victim.ids, **own), 404, json=body)
    assert leaked(victim, answer) == set()
    nothing = absent(victim.ids)
    same = stranger.ask(method, path.format(**nothing, **own), json=body)
    assert plain(answer, victim.ids) == plain(same, nothing)


IN_BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/topics/mine/subscriptions", {"name": "s", "dead_letter_topic": "{letters}"}),
    ("PATCH", "/subscriptions/mine", {"dead_letter_topic": "{letters}"}),
    (
        "POST",
        "/topics/mine/subscriptions",
        {
            "name": "s",
            "type": "push",
            "push": {"url": "https://hooks.example/", "events_topic": "{letters}"},
        },
    ),
    ("PUT", "/subscriptions/other", {"topic": "{topic}"}),
    ("POST", "/topics/mine/subscriptions", {"name": "s", "start": {"snapshot": "{snapshot}"}}),
    ("POST", "/subscriptions/mine/seek", {"to": {"snapshot": "{snapshot}"}}),
    ("POST", "/topics", {"name": "t", "schema": "{schema}"}),
    ("PATCH", "/topics/mine", {"schema": "{schema}"}),
    ("POST", "/topics/mine:preview_schema", {"schema": "{schema}"}),
    (
        "POST",
        "/schedules",
        {"name": "s", "topic": "{topic}", "cron": "0 0 1 1 *", "message": {"data": 1}},
    ),
    (
        "POST",
        "/subscriptions/mine/dead_letters:redrive",
        {"to": "{topic}", "ids": ["{letter}"]},
    ),
    ("POST", "/exports", {"name": "e", "topic": "{topic}"}),
    ("PUT", "/exports/e", {"topic": "{topic}"}),
    ("POST", "/jobs", {"name": "j", "map": "k", "parent": {"job": "{job}", "index": 0}}),
]
"""Names of the victim in bodies of one's own."""


def filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: filled(inner, ids) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, ids) for inner in value]
    return value.format(**ids) if isinstance(value, str) else value


@pytest.mark.parametrize(("method", "path", "body"), IN_BODIES)
def test_names_of_another_tenant_in_bodies(
    method: str,
    path: str,
    body: dict[str, Any],
    victim: Victim,
    stranger: Actor,
    own: dict[str, str],
) -> None:
    answer = stranger.ask(method, path, json=filled(body, victim.ids))
    assert answer.status_code in (404, 422), answer.text
    assert leaked(victim, answer) == set()
    nothing = absent(victim.ids)
    same = stranger.ask(method, path, json=filled(body, nothing))
    assert plain(answer, victim.ids) == plain(same, nothing)


@pytest.mark.parametrize("action", ["ack", "nack", "reject", "release", "modify_ack_deadline"])
def test_ack_and_message_ids_of_another_tenant_settle_nothing(
    action: str, victim: Victim, stranger: Actor, own: dict[str, str]
) -> None:
    more = {"deadline_seconds": 60} if action.startswith("modify") else {}
    for ids in ({"ack_ids": [victim.ids["ack"]]}, {"message_ids": [victim.ids["message"]]}):
        answer = stranger.ask("POST", f"/subscriptions/mine/{action}", json=ids | more)
        if answer.status_code == 200:
            (result,) = answer.json()["results"]
            assert 400 <= result["status"] < 500
        else:
            assert answer.status_code in (400, 404, 409, 422), answer.text
        assert leaked(victim, answer) == set()


IN_BODIES_ELSEWHERE: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/topics", {"name": "else"}),
    ("POST", "/topics", {"name": "elsewhere-1", "schema": "{schema}"}),
    ("PUT", "/topics/elsewhere-1", {"schema": "{schema}"}),
    ("POST", "/topics/{topic}/subscriptions", {"name": "elsewhere-1"}),
    ("POST", "/topics/elsewhere-1/subscriptions", {"name": "else"}),
    ("PUT", "/subscriptions/elsewhere-1", {"topic": "{topic}"}),
    ("POST", "/schemas", {"name": "x", "type": "json_schema", "definition": {}}),
    (
        "POST",
        "/schedules",
        {"name": "elsewhere-1", "topic": "{topic}", "cron": "0 0 1 1 *", "message": {"data": 1}},
    ),
    (
        "PUT",
        "/schedules/elsewhere-1",
        {"topic": "{topic}", "cron": "0 0 1 1 *", "message": {"data": 1}},
    ),
    ("GET", "/backlog:stream?subscription={subscription}", {}),
    ("POST", "/exports", {"name": "else", "topic": "elsewhere-1"}),
    ("POST", "/exports", {"name": "elsewhere-1", "topic": "{topic}"}),
    ("POST", "/exports", {"name": "elsewhere-1", "topic": "*"}),
    ("PUT", "/exports/elsewhere-1", {"topic": "{topic}"}),
    ("POST", "/jobs", {"name": "else", "map": "k", "pool": "elsewhere-1"}),
    ("PUT", "/jobs/elsewhere-1", {"map": "k", "pool": "{pool}"}),
    ("PUT", "/jobs/elsewhere-1", {"map": "k", "pool": "elsewhere-1", "reduce_pool": "{pool}"}),
    (
        "PUT",
        "/jobs/elsewhere-1",
        {"map": "k", "pool": "elsewhere-1", "parent": {"job": "{job}", "index": 0}},
    ),
]


@pytest.mark.parametrize(("method", "path", "body"), IN_BODIES_ELSEWHERE)
def test_names_in_bodies_need_grants_as_well(
    method: str, path: str, body: dict[str, Any], victim: Victim, elsewhere: Actor
) -> None:
    path = path.format(**victim.ids)
    answer = elsewhere.ask(method, path, 403, json=filled(body, victim.ids))
    assert leaked(victim, answer) == set()


def test_what_a_subscription_is_allowed_is_not_what_its_neighbours_are(
    victim: Victim, elsewhere: Actor
) -> None:
    owner = victim.owner
    owner.post("/topics", 201, name="elsewhere-t", partitions=1)
    theirs = elsewhere
    theirs.post("/topics/elsewhere-t/subscriptions", 201, name="elsewhere-s", start="earliest")
    try:
        for body in (
            {"dead_letter_topic": victim.ids["letters"]},
            {"retry": {"max_attempts": 5}, "dead_letter_topic": victim.ids["letters"]},
            {
                "type": "push",
                "push": {"url": "https://hooks.example/", "events_topic": victim.ids["letters"]},
            },
        ):
            theirs.ask("PATCH", "/subscriptions/elsewhere-s", 403, json=body)
        snapshot = {"to": {"snapshot": victim.ids["snapshot"]}}
        theirs.ask("POST", "/subscriptions/elsewhere-s/seek", 403, json=snapshot)
        theirs.post("/subscriptions/elsewhere-s/snapshots", 403, name="else")
        redrive = {"to": victim.ids["topic"]}
        theirs.ask("POST", "/subscriptions/elsewhere-s/dead_letters:redrive", 403, json=redrive)
        theirs.ask("POST", "/topics/elsewhere-t/messages", 201, data="x")
        pulled = theirs.post("/subscriptions/elsewhere-s:pull", 200, wait_seconds=20).json()
        ack = {"ack_id": pulled["messages"][0]["ack_id"]}
        out = {"publish": [{"topic": victim.ids["topic"], "data": 1}]}
        theirs.ask("POST", "/subscriptions/elsewhere-s/ack", 403, json=ack | out)
        good = {"publish": [{"topic": "elsewhere-t", "data": 1}]}
        theirs.ask("POST", "/subscriptions/elsewhere-s/ack", 200, json=ack | good)
        assert [each["name"] for each in theirs.get("/topics")["topics"]] == ["elsewhere-t"]
        names = [each["name"] for each in theirs.get("/subscriptions")["subscriptions"]]
        assert names == ["elsewhere-s"]
        page = theirs.get("/topics", page_size=1)
        assert page["next_page_token"] is None
    finally:
        owner.ask("DELETE", "/topics/elsewhere-t?force=true", 204)
