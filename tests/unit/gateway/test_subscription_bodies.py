"""Subscriptions in JSON: which fields fit together, what may change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NoReturn

import msgspec
import pytest
from msgspec.structs import replace

from edge.problem import Problem
from gateway.http.decoding import decode_json
from gateway.subscriptions.bodies import changed, new_spec, patched, spec_of, view
from metadata.types import Subscription, SubscriptionSpec
from openapi.subscriptions import SubscriptionCreate, SubscriptionPatch, SubscriptionPut

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EVERYTHING: dict[str, Any] = {
    "name": "s",
    "type": "pull",
    "delivery": "exactly_once",
    "ordered": True,
    "filter": 'attributes.kind == "a"',
    "ack_deadline_seconds": 12.5,
    "retry": {
        "min_backoff_seconds": 0.5,
        "max_backoff_seconds": 9,
        "max_attempts": 3,
        "on_exhausted": "park",
    },
    "dead_letter_topic": "dead",
    "rate_limit": {"messages_per_second": 5, "per_consumer_messages_per_second": None},
    "max_outstanding": 7,
    "start": {"offset": 4},
    "labels": {"team": "x"},
}


def never_pushed(*_: object) -> NoReturn:
    raise AssertionError("nothing here is of type push")


def created(**fields: Any) -> SubscriptionSpec:
    body = decode_json(msgspec.json.encode({"name": "s"} | fields), SubscriptionCreate)
    return new_spec(body, "orders", never_pushed)


def stored(spec: SubscriptionSpec) -> Subscription:
    fields = {name: getattr(spec, name) for name in spec.__struct_fields__}
    return Subscription(
        tenant_id=b"t",
        uid=b"u",
        topic_uid=b"o",
        topic_name="orders",
        generation=0,
        version=1,
        created_at=NOW,
        updated_at=NOW,
        **fields,
    )


def put(present: Subscription, **fields: Any) -> SubscriptionSpec:
    return changed(decode_json(msgspec.json.encode(fields), SubscriptionPut), present, never_pushed)


def patch(present: Subscription, **fields: Any) -> SubscriptionSpec:
    body = decode_json(msgspec.json.encode(fields), SubscriptionPatch)
    return changed(patched(body, present), present, never_pushed)


def test_every_field_is_kept_and_shown_again() -> None:
    spec = created(**EVERYTHING)
    assert (spec.delivery, spec.ordered) == ("exactly_once", True)
    assert (spec.on_exhausted, spec.rate_limit) == ("park", 5)
    assert spec_of(stored(spec)) == spec
    shown = msgspec.to_builtins(view(stored(spec)))
    assert {name: shown[name] for name in EVERYTHING} == EVERYTHING
    assert (shown["topic"], shown["state"], shown["state_reason"]) == ("orders", "active", None)


def test_a_put_of_what_is_shown_changes_nothing() -> None:
    present = stored(created(**EVERYTHING))
    assert put(present, **EVERYTHING) == spec_of(present)


def test_a_put_is_the_whole_and_a_patch_a_part() -> None:
    present = stored(created(**EVERYTHING))
    replaced = put(present, retry={"on_exhausted": "park", "max_attempts": 2}, labels={"a": "b"})
    assert (replaced.filter, replaced.rate_limit, replaced.max_outstanding) == (None, None, None)
    assert (replaced.ack_deadline_s, replaced.retry.max_attempts) == (30.0, 2)
    assert (replaced.delivery, replaced.start) == (present.delivery, present.start)
    part = patch(present, filter=None, rate_limit={"per_consumer_messages_per_second": 2})
    assert (part.filter, part.rate_limit, part.consumer_rate_limit) == (None, 5, 2)
    assert (part.retry, part.labels) == (present.retry, present.labels)
    assert patch(present) == spec_of(present)


def test_a_patch_of_one_member_of_an_object_keeps_the_others() -> None:
    present = stored(created(**EVERYTHING))
    retry = patch(present, retry={"max_attempts": 9}).retry
    assert (retry.min_backoff_s, retry.max_backoff_s, retry.max_attempts) == (0.5, 9, 9)
    assert patch(present, retry={"max_attempts": 9}).on_exhausted == "park"
    labels = patch(present, labels={"area": "y", "team": None}).labels
    assert labels == {"area": "y"}
    assert patch(present, labels={"area": "y"}).labels == {"team": "x", "area": "y"}


def test_null_in_a_patch_is_the_default_where_there_is_no_null() -> None:
    present = stored(created(**EVERYTHING))
    assert patch(present, retry={"min_backoff_seconds": None}).retry.min_backoff_s == 1.0
    back = patch(present, retry=None, ack_deadline_seconds=None, labels=None, rate_limit=None)
    assert back.retry == SubscriptionSpec("s").retry
    assert (back.ack_deadline_s, back.labels, back.rate_limit) == (30.0, {}, None)
    assert patch(present, retry={"max_attempts": None}).retry.max_attempts is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"retry": {"max_attempt": None}}, "retry.max_attempt"),
        ({"retries": None}, "retries"),
        ({"retry": {"max_attempts": "3"}}, "retry.max_attempts"),
        ({"name": None}, "name"),
        ({"labels": {"a": 1}}, "labels[...]"),
    ],
)
def test_a_patch_that_does_not_fit_names_the_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        patch(stored(created(**EVERYTHING)), **fields)
    assert [error.field for error in refused.value.errors] == [field]


def test_a_filter_that_is_stored_is_not_looked_at_again() -> None:
    """0.2.0 took filters that give no boolean."""
    present = stored(replace(created(**EVERYTHING), filter="attributes.kind"))
    assert patch(present, labels={"a": "b"}).filter == "attributes.kind"
    assert patch(present, filter="attributes.kind").filter == "attributes.kind"
    with pytest.raises(Problem):
        patch(present, filter="attributes.kind ")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"filter": "1 +"}, "filter"),
        ({"filter": ""}, "filter"),
        ({"filter": "attributes.kind"}, "filter"),
        ({"retry": {"max_attempts": 3}}, "retry.max_attempts"),
        ({"retry": {"max_attempts": 3, "on_exhausted": "park"}}, "retry.on_exhausted"),
        ({"retry": {"on_exhausted": "drop"}}, "retry.on_exhausted"),
        ({"dead_letter_topic": "orders"}, "dead_letter_topic"),
        ({"dead_letter_topic": "no name"}, "dead_letter_topic"),
        ({"rate_limit": {"messages_per_second": 0}}, "rate_limit.messages_per_second"),
        ({"rate_limit": {"per_second": 1}}, "rate_limit.per_second"),
        ({"max_outstanding": 0}, "max_outstanding"),
        ({"max_outstanding": 100_001}, "max_outstanding"),
        ({"ordered": "yes"}, "ordered"),
        ({"start": {}}, "start"),
        ({"start": {"offset": 1, "snapshot": "s"}}, "start"),
        ({"topic": "other"}, "topic"),
    ],
)
def test_what_does_not_fit_is_named(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        created(**fields)
    assert [error.field for error in refused.value.errors] == [field]
    if field == "topic":
        assert refused.value.slug == "immutable-field"
        return
    present = stored(created())
    for change in (put, patch):
        with pytest.raises(Problem) as refused:
            change(present, **fields)
        named = [error.field for error in refused.value.errors]
        assert (refused.value.status, named) in ((422, [field]), (409, [field]))


def test_a_filter_that_does_not_parse_says_where() -> None:
    with pytest.raises(Problem) as refused:
        created(filter="attributes.kind ==\n  )")
    assert refused.value.errors[0].detail.startswith("line 2, column 3: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "other"},
        {"topic": "other"},
        {"delivery": "at_most_once"},
        {"ordered": False},
        {"start": "latest"},
    ],
)
def test_what_cannot_change_is_409(fields: dict[str, Any]) -> None:
    present = stored(created(**EVERYTHING))
    for change in (put, patch):
        with pytest.raises(Problem) as refused:
            change(present, **fields)
        assert (refused.value.status, refused.value.slug) == (409, "immutable-field")


def test_attempts_may_end_at_a_dead_letter_topic() -> None:
    spec = created(retry={"max_attempts": 3}, dead_letter_topic="dead")
    assert (spec.retry.max_attempts, spec.dead_letter_topic) == (3, "dead")
    with pytest.raises(Problem):
        patch(stored(spec), dead_letter_topic=None)
