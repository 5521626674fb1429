"""The push of a subscription in JSON: what fits, what is secret, what stays when asked again."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from edge.egress.guard import Guard
from edge.problem import Problem
from edge.sealing import Sealer
from gateway.http.decoding import decode_json
from gateway.subscriptions.bodies import changed, new_spec, patched, spec_of
from gateway.subscriptions.bodies import view as view_of
from gateway.subscriptions.push_bodies import MAX_SIGNING_KEYS, NewSecret, PushMaker, secret_view
from metadata.subscriptions.push_config import (
    PushConfig,
    header_purpose,
    key_purpose,
)
from metadata.types import Subscription, SubscriptionSpec
from openapi.subscriptions import SubscriptionCreate, SubscriptionPatch, SubscriptionPut
from tests.unit.gateway.test_subscription_bodies import stored

SEALER = Sealer.from_text("k:" + "01" * 32)
NOW = datetime(2026, 5, 1, tzinfo=UTC)
TENANT, UID = b"t", b"u"
URL = "https://hook.example/in"
EVERYTHING: dict[str, Any] = {
    "url": URL,
    "format": "cloudevents_batched",
    "headers": {"Authorization": "Bearer s3cret", "X-Shop": "7"},
    "signing": ["v1", "v1a"],
    "oidc": None,
    "timeout_seconds": 2.5,
    "max_concurrency": 3,
    "max_batch": 20,
    "disable_after_seconds": None,
    "verify": False,
    "events_topic": "endpoints",
}


def maker(now: datetime = NOW, allowed: tuple[str, ...] = ()) -> PushMaker:
    return PushMaker(SEALER, Guard(allowed), TENANT, UID, now)


def created(making: PushMaker | None = None, **push: Any) -> Subscription:
    raw = {"name": "s", "type": "push", "push": {"url": URL} | push}
    body = decode_json(msgspec.json.encode(raw), SubscriptionCreate)
    return stored(new_spec(body, "orders", (making or maker()).config))


def put(present: Subscription, making: PushMaker | None = None, **fields: Any) -> SubscriptionSpec:
    body = decode_json(msgspec.json.encode(fields), SubscriptionPut)
    return changed(body, present, (making or maker()).config)


def patch(
    present: Subscription, making: PushMaker | None = None, **fields: Any
) -> SubscriptionSpec:
    body = decode_json(msgspec.json.encode(fields), SubscriptionPatch)
    return changed(patched(body, present), present, (making or maker()).config)


def view(subscription: Subscription, made: Sequence[NewSecret] = ()) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(msgspec.json.encode(view_of(subscription, made)))
    return shown


def config_of(subscription: Subscription | SubscriptionSpec) -> PushConfig:
    assert subscription.push is not None
    return subscription.push


def opened(config: PushConfig, name: str) -> str:
    return SEALER.open(config.headers[name], header_purpose(TENANT, UID, name)).decode()


def test_defaults() -> None:
    config = config_of(created())
    assert (config.format, config.max_batch, config.max_concurrency) == ("json", 1, 100)
    assert (config.timeout_s, config.disable_after_s, config.verify) == (30, 432_000, True)
    assert [key.kind for key in config.signing] == ["v1"]


def test_every_field_is_kept_and_shown_again_but_no_secret() -> None:
    making = maker()
    made = created(making, **EVERYTHING)
    shown = view(made)["push"]
    hidden = {"headers": {"Authorization": "set", "X-Shop": "set"}}
    assert shown == EVERYTHING | hidden
    text = msgspec.json.encode(view(made, making.made)).decode()
    assert "s3cret" not in text
    assert opened(config_of(made), "Authorization") == "Bearer s3cret"
    assert spec_of(made).push is made.push


def test_secrets_are_told_once() -> None:
    making = maker()
    made = created(making, signing=["v1", "v1a"])
    v1, v1a = (secret_view(new) for new in making.made)
    keys = {key.kind: key for key in config_of(made).signing}
    plain = base64.b64decode((v1.secret or "").removeprefix("whsec_"))
    key = keys["v1"]
    assert SEALER.open(key.sealed, key_purpose(TENANT, UID, key.id)) == plain
    assert (len(plain), v1.public_key, v1a.secret) == (32, None, None)
    key = keys["v1a"]
    seed = SEALER.open(key.sealed, key_purpose(TENANT, UID, key.id))
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    assert v1a.public_key == f"whpk_{base64.b64encode(public).decode()}" == key.public_key
    assert "signing_secrets" not in view(made)["push"]


def test_asked_again_nothing_changes() -> None:
    present = created(**EVERYTHING)
    later = maker(NOW + timedelta(days=1))
    for push in (EVERYTHING, json.loads(msgspec.json.encode(view(present)["push"]))):
        again = put(present, later, type="push", push=push)
        assert (again.push, later.made) == (present.push, ())
        assert put(present, later, type="push", push=push) == spec_of(present)
    del push["signing"]
    assert patch(present, later, push=push).push == present.push
    assert patch(present, later, labels={}) == spec_of(present)


def test_one_value_changes_and_the_others_stay_sealed_as_they_are() -> None:
    present = created(**EVERYTHING)
    headers = {"authorization": "set", "X-Shop": "8", "X-New": "set it"}
    config = config_of(patch(present, push=EVERYTHING | {"headers": headers}))
    before = config_of(present).headers
    assert config.headers["authorization"] == before["Authorization"]
    assert (opened(config, "X-Shop"), opened(config, "X-New")) == ("8", "set it")
    assert config_of(patch(present, push={"url": URL})).headers == before
    without = config_of(patch(present, push={"headers": {"x-shop": None}})).headers
    assert list(without) == ["Authorization"]


def test_a_patch_of_one_member_of_push_keeps_the_others() -> None:
    present = created(**EVERYTHING)
    slower = config_of(patch(present, push={"timeout_seconds": 7}))
    assert slower == msgspec.structs.replace(config_of(present), timeout_s=7.0)
    assert config_of(patch(present, push={"format": None})).format == "json"
    assert config_of(patch(present, push={"disable_after_seconds": None})).disable_after_s is None


@pytest.mark.parametrize("url", ["https://evil.example/in", "https://hook.example:8443/in"])
def test_values_are_not_kept_for_another_endpoint(url: str) -> None:
    """A caller who may change a subscription does not learn secrets."""
    present = created(**EVERYTHING)
    with pytest.raises(Problem) as refused:
        patch(present, push=EVERYTHING | {"url": url, "headers": {"Authorization": "set"}})
    named = {f"push.headers.{name}" for name in config_of(present).headers}
    assert {error.field for error in refused.value.errors} == named
    moved = patch(present, push=EVERYTHING | {"url": "https://hook.example/elsewhere"})
    assert config_of(moved).headers == config_of(present).headers


def test_signing_follows_its_kinds() -> None:
    present = created(signing=["v1"])
    (v1,) = config_of(present).signing
    making = maker()
    both = stored(patch(present, making, push={"url": URL, "signing": ["v1a", "v1"]}))
    assert [new.key.kind for new in making.made] == ["v1a"]
    assert v1 in config_of(both).signing
    only = config_of(patch(both, push={"url": URL, "signing": ["v1a"]}))
    assert [key.kind for key in only.signing] == ["v1a"]
    assert config_of(patch(both, push={"url": URL, "signing": []})).signing == ()


def test_rotation() -> None:
    present = config_of(created(signing=["v1", "v1a"]))
    making = maker(NOW)
    config = making.rotated(present, "v1", 3600)
    (made,) = making.made
    assert config.signing[0] is made.key
    ends = {key.id: key.expires_at for key in config.signing}
    assert [ends.pop(made.key.id), *ends.values()].count(None) == 2
    assert NOW + timedelta(hours=1) in ends.values()

    at_once = maker(NOW).rotated(config, "v1", 0)
    assert len([key for key in at_once.signing if key.kind == "v1"]) == 1
    longer = maker(NOW).rotated(config, "v1", 7200)
    assert sorted(
        (key.expires_at - NOW).seconds for key in longer.signing if key.expires_at is not None
    ) == [3600, 7200]  # a key that ends in an hour still does
    later = maker(NOW + timedelta(hours=1)).rotated(longer, "v1a", 10)
    assert not {key.id for key in later.signing} & {key.id for key in present.signing[:1]}

    for _ in range(MAX_SIGNING_KEYS - len(config.signing)):
        config = maker().rotated(config, "v1", 3600)
    with pytest.raises(Problem) as refused:
        maker().rotated(config, "v1", 3600)
    assert refused.value.slug == "too-many-signing-secrets"


@pytest.mark.parametrize(
    ("push", "field"),
    [
        ({"url": "http://hook.example/"}, "push.url"),
        ({"url": "https://169.254.169.254/"}, "push.url"),
        ({"url": "https://u:p@hook.example/"}, "push.url"),
        ({"url": "https://hook.example:25/"}, "push.url"),
        ({"url": "x"}, "push.url"),
        ({"format": "xml"}, "push.format"),
        ({"format": "raw", "max_batch": 2}, "push.max_batch"),
        ({"max_batch": 0}, "push.max_batch"),
        ({"max_concurrency": 1001}, "push.max_concurrency"),
        ({"timeout_seconds": 601}, "push.timeout_seconds"),
        ({"disable_after_seconds": 0}, "push.disable_after_seconds"),
        ({"events_topic": "orders"}, "push.events_topic"),
        ({"events_topic": "no name"}, "push.events_topic"),
        ({"signing": ["v1", "v1"]}, "push.signing"),
        ({"signing": ["v2"]}, "push.signing[0]"),
        ({"oidc": {}}, "push.oidc.audience"),
        ({"headers": {"Host": "x"}}, "push.headers.Host"),
        ({"headers": {"webhook-id": "x"}}, "push.headers.webhook-id"),
        ({"headers": {"Ce-Type": "x"}}, "push.headers.Ce-Type"),
        ({"headers": {"Content-Type": "x"}}, "push.headers.Content-Type"),
        ({"headers": {"a b": "x"}}, "push.headers"),
        ({"headers": {"": "x"}}, "push.headers"),
        ({"headers": {"X": "a\r\nY: b"}}, "push.headers.X"),
        ({"headers": {"X": "\u00e9"}}, "push.headers.X"),
        ({"headers": {"X": "y" * 4097}}, "push.headers.X"),
        ({"headers": {"X": "set"}}, "push.headers.X"),
        ({"headers": {"X": "1", "x": "2"}}, "push.headers.x"),
        ({"headers": {f"X-{n}": "1" for n in range(21)}}, "push.headers"),
        ({"headers": {"Authorization": "x"}, "oidc": {"audience": "a"}},
         "push.headers.Authorization"),
        ({"secret": "x"}, "push.secret"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(push: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        created(**push)
    assert [error.field for error in refused.value.errors] == [field]
    assert refused.value.status == 422


def test_what_a_tenant_may_reach() -> None:
    making = maker(allowed=("http://127.0.0.0/8:*",))
    assert (
        config_of(created(making, url="http://127.0.0.1:9000/x")).url == "http://127.0.0.1:9000/x"
    )


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": "push"}, "push"),
        ({"type": "push", "push": None}, "push"),
        ({"type": "pull", "push": {"url": URL}}, "push"),
        ({"push": {"url": URL}}, "push"),
        ({"type": "export"}, "type"),
    ],
)
def test_type_and_push_go_together(fields: dict[str, Any], field: str) -> None:
    pulled = stored(SubscriptionSpec("s"))
    for change in (put, patch):
        with pytest.raises(Problem) as refused:
            change(pulled, **fields)
        assert [error.field for error in refused.value.errors] == [field]


def test_a_push_that_stays_is_not_held_to_newer_rules() -> None:
    present = created(maker(allowed=("http://127.0.0.0/8:*",)), url="http://127.0.0.1:9000/x")
    assert patch(present, labels={"a": "b"}).push == present.push
    with pytest.raises(Problem):
        patch(present, push={"timeout_seconds": 7})


def test_a_subscription_is_switched_by_put_and_patch() -> None:
    pulled = stored(SubscriptionSpec("s", labels={"a": "b"}))
    for change in (put, patch):
        pushed = stored(change(pulled, type="push", push={"url": URL}))
        assert (pushed.type, config_of(pushed).url) == ("push", URL)
        back = change(pushed, type="pull")
        assert (back.type, back.push) == ("pull", None)
    pushed = stored(patch(pulled, type="push", push={"url": URL}))
    assert patch(pushed, filter="true").push == pushed.push
    assert patch(pushed, type="push").push == pushed.push
    assert put(pushed).type == "pull"
    with pytest.raises(Problem):
        patch(pushed, push=None)
    assert spec_of(replace(pushed, name="s")).type == "push"
