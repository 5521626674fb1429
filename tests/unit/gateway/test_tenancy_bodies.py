"""Bodies and queries of tenancy: each refusal names the field at fault."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edge.parameters import Query
from edge.problem import Problem
from gateway.http.decoding import decode_json
from gateway.quotas.settings import load
from gateway.tenancy import client_bodies, issuer_bodies, key_bodies, policy_bodies, tenant_bodies
from gateway.tenancy.answers import time_of
from gateway.tenancy.audit import filter_of
from gateway.tenancy.quota_bodies import limits_of, view
from metadata.counts import BUILT_IN_LIMITS
from metadata.tenancy.quotas import TenantQuota
from openapi.access import ClientBody, IssuerBody, KeyBody, PolicyBody
from openapi.tenants import LimitsBody, QuotaBody, TenantBody
from openapi.usage import QUOTA_NAMES

ISSUER = {"issuer": "https://id.example", "audience": "a"}
SPECS: dict[Any, Callable[[Any, str], Any]] = {
    ClientBody: client_bodies.spec_of,
    TenantBody: tenant_bodies.spec_of,
    KeyBody: key_bodies.spec_of,
    PolicyBody: policy_bodies.spec_of,
    IssuerBody: issuer_bodies.spec_of,
}
POLICY = {"role": "viewer", "members": ["client:a"]}


def refused(kind: Any, body: dict[str, Any], name: str = "x") -> list[str]:
    def take() -> None:
        read = decode_json(msgspec.json.encode(body), kind)
        if kind is not QuotaBody:
            SPECS[kind](read, name)

    with pytest.raises(Problem) as error:
        take()
    return [each.field for each in error.value.errors]


@pytest.mark.parametrize(
    ("kind", "body", "fields"),
    [
        (ClientBody, {"labels": {"": "x"}}, ["labels"]),
        (ClientBody, {"display_name": "a\nb"}, ["display_name"]),
        (ClientBody, {"display_name": "x" * 256}, ["display_name"]),
        (ClientBody, {"state": "asleep"}, ["state"]),
        (ClientBody, {"secret": "mine"}, ["secret"]),
        (ClientBody, {"name": "other"}, ["name"]),
        (TenantBody, {"owner": {"name": "-"}}, ["owner.name"]),
        (TenantBody, {"egress_allowed": ["10.0.0.0/8", "bad entry!"]}, ["egress_allowed[1]"]),
        (TenantBody, {"egress_allowed": ["x" * 256]}, ["egress_allowed[0]"]),
        (TenantBody, {"egress_allowed": ["10.0.0.1"] * 101}, ["egress_allowed"]),
        (TenantBody, {"state": "deleting"}, ["state"]),
        (KeyBody, {}, ["scopes"]),
        (KeyBody, {"scopes": []}, ["scopes"]),
        (KeyBody, {"scopes": ["read", "operate"]}, ["scopes[1]"]),
        (KeyBody, {"scopes": ["read:planets/x"]}, ["scopes[0]"]),
        (KeyBody, {"scopes": ["read"], "expires_at": "2026-01-01T00:00:00"}, ["expires_at"]),
        (PolicyBody, {"role": "viewer", "members": []}, ["members"]),
        (PolicyBody, POLICY | {"members": ["client:a", "b", "c"]}, ["members[1]", "members[2]"]),
        (PolicyBody, POLICY | {"members": ["issuer:sso"]}, ["members[0]"]),
        (PolicyBody, POLICY | {"members": ["key:ci"]}, ["members[0]"]),
        (PolicyBody, POLICY | {"members": ["client:a\0"]}, ["members[0]"]),
        (PolicyBody, POLICY | {"members": ["client:a"] * 501}, ["members"]),
        (PolicyBody, POLICY | {"resources": ["topics"]}, ["resources[0]"]),
        (PolicyBody, POLICY | {"resources": []}, ["resources"]),
        (IssuerBody, ISSUER | {"issuer": "https://a@id.example"}, ["issuer"]),
        (IssuerBody, ISSUER | {"issuer": "https://id.example?x"}, ["issuer"]),
        (IssuerBody, ISSUER | {"issuer": "https://id.example:x"}, ["issuer"]),
        (IssuerBody, ISSUER | {"issuer": "//id.example"}, ["issuer"]),
        (IssuerBody, ISSUER | {"issuer": "https://" + "x" * 512}, ["issuer"]),
        (IssuerBody, ISSUER | {"audience": ""}, ["audience"]),
        (IssuerBody, ISSUER | {"algorithms": ["none"]}, ["algorithms[0]"]),
        (IssuerBody, ISSUER | {"algorithms": []}, ["algorithms"]),
        (IssuerBody, ISSUER | {"subject_claim": ""}, ["subject_claim"]),
        (IssuerBody, ISSUER | {"required_claims": {"a b": "c"}}, ["required_claims"]),
        (IssuerBody, ISSUER | {"required_claims": {"a": "c" * 256}}, ["required_claims.a"]),
        (QuotaBody, {"limits": {"topics": -1}}, ["limits.topics"]),
        (QuotaBody, {"limits": {"topics": 1.5}}, ["limits.topics"]),
        (QuotaBody, {"limits": {"stars": 1}}, ["limits.stars"]),
        (QuotaBody, {"weight": 0}, ["weight"]),
    ],
)
def test_each_refusal_names_its_field(kind: Any, body: dict[str, Any], fields: list[str]) -> None:
    assert refused(kind, body) == fields


@pytest.mark.parametrize("kind", [ClientBody, TenantBody, KeyBody, PolicyBody, IssuerBody])
def test_a_thing_has_a_name(kind: Any) -> None:
    least: dict[Any, dict[str, Any]] = {
        KeyBody: {"scopes": ["read"]},
        PolicyBody: POLICY,
        IssuerBody: ISSUER,
    }
    body = least.get(kind, {})
    assert refused(kind, body, "") == ["name"]
    named = decode_json(msgspec.json.encode(body | {"name": "n"}), kind)
    assert SPECS[kind](named, "n").name == "n"


def test_what_fits() -> None:
    key = {
        "scopes": ["read", "read", "publish:topics/a*"],
        "expires_at": "2030-01-01T02:00:00+02:00",
    }
    spec = key_bodies.spec_of(decode_json(msgspec.json.encode(key), KeyBody), "k")
    assert spec.scopes == ("read", "publish:topics/a*")
    assert spec.expires_at == datetime(2030, 1, 1, tzinfo=UTC)
    members = ["client:*", "issuer:sso#ann@example.com"]
    policy = POLICY | {"members": members, "resources": ["topics/*", "locks/a-*"]}
    body = decode_json(msgspec.json.encode(policy), PolicyBody)
    assert policy_bodies.spec_of(body, "p").members == tuple(members)


def test_limits_in_force() -> None:
    defaults = {"topics": 10.0, "in_flight": 5.0, "stored_bytes": 0.0}
    quota = TenantQuota(b"", {"topics": 3, "in_flight": 0, "subscriptions": None})
    shown = msgspec.structs.asdict(view(quota, defaults).limits)
    assert {name: limit for name, limit in shown.items() if limit is not None} == {"topics": 3}
    assert view(TenantQuota(b""), defaults).limits.in_flight == 5


def test_a_limit_that_a_body_leaves_out_is_the_platforms_and_null_is_none() -> None:
    body = decode_json(b'{"limits": {"topics": 3.0, "in_flight": null}}', QuotaBody)
    limits = limits_of(body)
    assert limits == {"topics": 3.0, "in_flight": None}
    assert isinstance(limits["topics"], float), "as it was kept before"
    assert limits_of(decode_json(b"{}", QuotaBody)) == {}


def test_operators_set_the_limits_that_answers_show() -> None:
    assert LimitsBody.__struct_fields__ == QUOTA_NAMES


@pytest.mark.parametrize(
    ("own", "defaults", "exempt"),
    [
        ({}, {}, ["topics", "subscriptions", "stored_bytes"]),
        ({"topics": 3}, {"subscriptions": 9.0}, ["stored_bytes"]),
        ({"topics": None}, {"subscriptions": 0.0, "stored_bytes": 0.0}, []),
    ],
)
def test_a_limit_of_its_own_or_a_setting_ends_an_exemption(
    own: dict[str, float | None], defaults: dict[str, float], exempt: list[str]
) -> None:
    shown = view(TenantQuota(b"", own, exempt=True), defaults)
    assert shown.exempt == exempt
    assert [name for name in exempt if getattr(shown.limits, name) is not None] == []
    new = view(TenantQuota(b"", own), defaults)
    assert new.exempt == []
    assert [getattr(new.limits, name) for name in exempt] == [
        BUILT_IN_LIMITS[name] for name in exempt
    ]


def test_settings_say_which_built_in_limits_are_set() -> None:
    built_in = {*BUILT_IN_LIMITS}
    assert built_in & set(load({}).defaults) == set()
    given = load({"PACKETBOAT_QUOTA_TOPICS": "1000", "PACKETBOAT_QUOTA_STORED_BYTES": "0"})
    set_ones = {name: limit for name, limit in given.defaults.items() if name in built_in}
    assert set_ones == {"topics": 1000, "stored_bytes": 0}


def query(text: str) -> Query:
    return Query({"query_string": text.encode()})


def test_times() -> None:
    assert time_of(query("from=2026-01-01T00:00:00Z"), "from") == datetime(2026, 1, 1, tzinfo=UTC)
    assert time_of(query(""), "from") is None
    late = time_of(query("from=2026-01-01T00:00:00.5%2B02:00"), "from")
    assert late == datetime(2025, 12, 31, 22, 0, 0, 500_000, tzinfo=UTC)
    for text in (
        "",
        "yesterday",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "0001-01-01T00:00:00%2B09:00",
    ):
        with pytest.raises(Problem) as error:
            time_of(query("from=" + text), "from")
        assert error.value.status == 400


def test_filters_of_the_audit() -> None:
    wanted = filter_of(query("actor=client:a&order=oldest&resource=topics/x"))
    assert (wanted.actor, wanted.oldest_first, wanted.resource) == ("client:a", True, "topics/x")
    for text in ("order=best", "actor=" + "x" * 513, "resource=%00"):
        with pytest.raises(Problem) as error:
            filter_of(query(text))
        assert error.value.errors[0].field == text.partition("=")[0]
