"""`doctor` names what is wrong, and what helps; its exit code says whether anything fails."""

from __future__ import annotations

import json
import os
import time
from email.utils import formatdate
from importlib.metadata import version
from typing import Any

import pytest
from packetboat.errors import ConnectionFailed
from packetboat.profiles import Profile, Profiles, save

from tests.unit.sdk.cli_support import Answer, Command, Ran, answer, problem

WHO = {
    "tenant": "shop",
    "subject": "client:a",
    "roles": [{"role": "admin"}],
    "grants": [],
    "token_audience": "packetboat:tenant:1",
}


def well(**changed: Answer) -> dict[str, Answer]:
    healthy = answer({"status": "ok"}, headers={"date": formatdate(usegmt=True)})
    answers: dict[str, Answer] = {
        "GET /healthz": healthy,
        "GET /openapi.json": {"info": {"version": version("packetboat-client")}},
        "GET /readyz": {"status": "ready"},
        "GET /metrics": answer(None)._replace(body=b'packetboat_breaker_state{to="x"} 0.0\n'),
        "GET /whoami": {**WHO, "expires_at": None},
        "GET /topics": {"topics": [{"name": "o", "full": None}], "next_page_token": None},
        "GET /subscriptions": {
            "subscriptions": [
                {"name": "s", "filter": "key == r'a'"},
                {"name": "t", "filter": None},
            ],
            "next_page_token": None,
        },
        "GET /subscriptions/s/skip_rules": {"skip_rules": [], "skipped": 0},
        "GET /subscriptions/t/skip_rules": {
            "skip_rules": [{"id": "d1", "expression": "data.total > 9.0"}],
            "skipped": 0,
        },
        "GET /exports": {
            "exports": [
                {"name": "e", "topic": "*", "filter": "has(key)"},
                {"name": "f", "topic": "o", "filter": None},
                {"name": "g", "topic": "elsewhere", "filter": "of a topic that there is not"},
            ],
            "next_page_token": None,
        },
        "GET /issuers": {
            "issuers": [{"name": "ci", "issuer": "https://ci", "trust": "audience"}],
            "next_page_token": None,
        },
        "GET /forwarders": {"forwarders": [{}], "hints": []},
        "GET /tenants": {"tenants": [{"name": "new"}], "next_page_token": None},
        "GET /tenants/new/quotas": {"own": {}, "exempt": [], "weight": 1.0},
        "POST /subscriptions/s:preview_filter": {"examined": 0},
        "POST /subscriptions/t:preview_filter": {"examined": 0},
        "POST /topics/o:preview_filter": {"examined": 0},
    }
    return answers | {
        name if name.startswith("POST ") else f"GET /{name}": value
        for name, value in changed.items()
    }


def findings(ran: Ran) -> dict[str, tuple[str, str]]:
    return {each["check"]: (each["level"], each["detail"]) for each in ran.json}


def test_all_is_well(command: Command) -> None:
    ran = command("doctor", "--metrics-url", "http://127.0.0.1:1", answers=well())
    assert ran.code == 0
    marks = [line[:4] for line in ran.out.splitlines()]
    assert marks == ["ok  ", "warn", "    ", *["ok  "] * 6]
    assert "http://server: credentials and messages go unencrypted" in ran.out


def test_quiet_says_what_is_not_well(command: Command) -> None:
    command.environment["PACKETBOAT_URL"] = "http://127.0.0.1:1"
    assert command("-q", "doctor", answers=well()).out == ""


def test_nobody_there(command: Command) -> None:
    ran = command("doctor", answers=well(healthz=ConnectionFailed("refused")))
    assert ran.code == 1
    assert "FAIL  connection: http://server: refused" in ran.out
    assert "`packetboat up`" in ran.out


NO_BOOLEAN = problem(
    422, "invalid-request", errors=[{"field": "filter", "detail": "this is a text"}]
)
OVER = "line 1, column 5: over 2000 names, literals and operators"
TOO_LONG = problem(422, "invalid-request", errors=[{"field": "filter", "detail": OVER}])
BAD: dict[str, tuple[dict[str, Answer], str, str, str, int]] = {
    "another-server": ({"healthz": answer({}, 404)}, "connection", "fail", "404", 1),
    "version": ({"openapi.json": {"info": {"version": "9.0.0"}}}, "version", "warn", "9.0.0", 0),
    "no-version": ({"openapi.json": problem(404, "x")}, "version", "warn", "does not say", 0),
    "postgres": (
        {"readyz": problem(503, "not-ready", reasons={"metadata": "Postgres is away"})},
        "readiness: metadata",
        "fail",
        "Postgres is away",
        1,
    ),
    "leaders": (
        {"readyz": problem(503, "not-ready", reasons={"store": "no group has a leader"})},
        "readiness: store",
        "fail",
        "no group has a leader",
        1,
    ),
    "disk": (
        {"readyz": {"status": "ready", "warnings": {"disk": "store node 2 takes no appends"}}},
        "disk",
        "fail",
        "store node 2 takes no appends",
        1,
    ),
    "proxy": ({"readyz": answer("x", 502)}, "readiness: server", "fail", "502", 1),
    "no-token": ({"whoami": problem(401, "unauthorized", "No.")}, "credential", "fail", "401", 1),
    "no-role": ({"whoami": {**WHO, "roles": []}}, "permissions", "fail", "may do nothing", 1),
    "full": (
        {"topics": {"topics": [{"name": "o", "full": "bytes"}], "next_page_token": None}},
        "topics",
        "warn",
        "o is full",
        0,
    ),
    "refused-filter": (
        {"POST /subscriptions/s:preview_filter": NO_BOOLEAN},
        "filters",
        "warn",
        "the filter of s lets nothing through: this is a text",
        0,
    ),
    "long-filter": (
        {"POST /subscriptions/s:preview_filter": TOO_LONG},
        "filters",
        "warn",
        "the filter of s holds as it is, and would be refused if it was set anew: line 1",
        0,
    ),
    "refused-skip-rule": (
        {"POST /subscriptions/t:preview_filter": NO_BOOLEAN},
        "filters",
        "warn",
        "the skip rule d1 of t skips nothing: this is a text",
        0,
    ),
    "refused-filter-of-an-export": (
        {"POST /topics/o:preview_filter": NO_BOOLEAN},
        "filters",
        "warn",
        "the filter of the export e makes its runs fail: this is a text",
        0,
    ),
    "nobody-delivers": ({"forwarders": {"forwarders": []}}, "delivery", "fail", "no subscribe", 1),
    "no-metrics": ({"metrics": problem(404, "x")}, "metrics", "fail", "/metrics answers 404", 1),
    "breaker": (
        {"metrics": answer(None)._replace(body=b'packetboat_breaker_state{to="postgres"} 1.0\n')},
        "server",
        "warn",
        'to="postgres" is failing',
        0,
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named(command: Command, case: str) -> None:
    changed, check, level, detail, code = BAD[case]
    looked = ("--metrics-url", "http://127.0.0.1:1") if "metrics" in changed else ()
    ran = command("doctor", "-o", "json", *looked, answers=well(**changed))
    assert findings(ran)[check][0] == level
    assert detail in findings(ran)[check][1]
    assert ran.code == code


@pytest.mark.parametrize(
    ("skew_s", "level"), [(0, "ok"), (-20, "warn"), (20, "warn"), (600, "fail"), (-600, "fail")]
)
def test_the_clock(command: Command, skew_s: int, level: str) -> None:
    date = formatdate(time.time() - skew_s, usegmt=True)
    ran = command(
        "doctor", "-o", "json", answers=well(healthz=answer({"status": 1}, 200, {"date": date}))
    )
    assert findings(ran)["clock"][0] == level


def test_a_token_that_ends_soon(command: Command) -> None:
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
    ran = command("doctor", "-o", "json", answers=well(whoami={**WHO, "expires_at": ends}))
    assert any(each["level"] == "warn" and "it ends in" in each["detail"] for each in ran.json)


def test_no_credential(command: Command) -> None:
    command.environment["PACKETBOAT_TOKEN"] = None
    ran = command("doctor", "-o", "json", answers=well())
    assert findings(ran)["credential"] == ("fail", "there is none for this server")
    assert all("Authorization" not in each.headers for each in ran.server.requests)


def test_a_file_of_profiles_that_others_can_read(command: Command) -> None:
    save(command.profiles, Profiles("p", {"p": Profile("http://p", "t")}))
    assert findings(command("doctor", "-o", "json", answers=well()))["profiles"][0] == "ok"
    os.chmod(command.profiles, 0o644)
    ran = command("doctor", "-o", "json", answers=well())
    assert findings(ran)["profiles"][0] == "fail"
    assert ran.code == 1


def test_each_stored_expression_is_previewed_with_one_message(command: Command) -> None:
    ran = command("doctor", answers=well())
    previews = [each for each in ran.server.requests if each.path.endswith(":preview_filter")]
    assert [(each.path.split(":")[0], json.loads(each.body)["filter"]) for each in previews] == [
        ("/subscriptions/s", "key == r'a'"),
        ("/subscriptions/t", "data.total > 9.0"),
        ("/topics/o", "has(key)"),
    ]
    assert {json.loads(each.body)["messages"] for each in previews} == {1}


@pytest.mark.parametrize("gone", ["exports", "subscriptions"])
def test_filters_are_looked_at_where_one_may(command: Command, gone: str) -> None:
    denied = problem(403, "permission-denied", "No.")
    refused = {
        "POST /subscriptions/s:preview_filter": NO_BOOLEAN,
        "POST /topics/o:preview_filter": NO_BOOLEAN,
    }
    ran = command("doctor", "-o", "json", answers=well(**{gone: denied}, **refused))
    named = [each["detail"] for each in ran.json if each["check"] == "filters"]
    assert len(named) == 1
    assert ("of the export e" in named[0]) == (gone == "subscriptions")


def test_a_subscription_that_goes_meanwhile_is_no_finding(command: Command) -> None:
    gone = problem(404, "subscription-not-found", "No.")
    ran = command(
        "doctor", "-o", "json", answers=well(**{"POST /subscriptions/s:preview_filter": gone})
    )
    assert "filters" not in findings(ran)


def test_who_may_not_look_is_not_told_of_failures(command: Command) -> None:
    denied = problem(403, "permission-denied", "No.")
    ran = command("doctor", "-o", "json", answers=well(topics=denied, forwarders=denied))
    assert ran.code == 0
    assert not {"topics", "delivery"} & findings(ran).keys()


def test_checks_before_the_credential_do_not_show_it(command: Command) -> None:
    ran = command("doctor", answers=well())
    shown: dict[str, Any] = {each.path: each.headers for each in ran.server.requests}
    assert "Authorization" not in shown["/healthz"]
    assert "Authorization" in shown["/whoami"]


def test_issuers_that_nothing_proves_are_named(command: Command) -> None:
    issuers = [
        {"name": "sso", "issuer": "https://id", "trust": "unproved"},
        {"name": "old", "issuer": "https://id", "trust": "withdrawn"},
    ]
    ran = command("doctor", answers=well(issuers={"issuers": issuers, "next_page_token": None}))
    assert ran.code == 0
    for said in ("sso: nothing proves", "old: the operator took it back", "packetboat:tenant:1"):
        assert said in ran.out


def test_tenants_without_the_built_in_limits_are_named_with_the_command_that_limits_them(
    command: Command,
) -> None:
    listed = {"tenants": [{"name": "new"}, {"name": "old"}, {"name": "gone"}]}
    old = {
        "own": {"topics": 5_000_000.0, "in_flight": None, "requests_per_second": 0.5},
        "exempt": ["subscriptions", "stored_bytes"],
        "weight": 2.0,
    }
    tenants: dict[str, Answer] = {
        "tenants": {**listed, "next_page_token": None},
        "tenants/old/quotas": old,
        "tenants/gone/quotas": problem(404, "tenant-not-found", "No."),
    }
    ran = command("doctor", "-o", "json", answers=well(**tenants))
    assert ran.code == 0
    (found,) = [each for each in ran.json if each["check"] == "quotas"]
    assert (found["level"], found["detail"]) == (
        "warn",
        "old is older than the default limits, and has none of subscriptions, stored_bytes",
    )
    kept = "topics=5000000 in_flight=0 requests_per_second=0.5"
    new = "subscriptions=… stored_bytes=… --weight 2"
    assert f"`packetboat quotas set old {kept} {new}`" in found["fix"]


def test_limits_of_tenants_are_an_operators(command: Command) -> None:
    denied = problem(403, "permission-denied", "No.")
    ran = command("doctor", "-o", "json", answers=well(tenants=denied))
    assert ran.code == 0
    assert "quotas" not in findings(ran)
