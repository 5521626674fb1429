from __future__ import annotations

import json
import time
from typing import NoReturn

import pytest

from edge.bodies import MAX_CONTAINERS
from edge.parameters import Query
from edge.problem import Problem
from gateway.http.decoding import MAX_BODY_BYTES, decode_json, if_match
from gateway.subscriptions.bodies import new_spec
from gateway.topics import bodies as topics
from openapi.common import PAGE_SIZE
from openapi.subscriptions import StartAt, SubscriptionCreate
from openapi.topics import TopicCreate


def never_pushed(*_: object) -> NoReturn:
    raise AssertionError("nothing here is of type push")


def read(body: bytes, kind: type) -> None:
    made = decode_json(body, kind)
    if isinstance(made, SubscriptionCreate):
        new_spec(made, "orders", never_pushed)
    else:
        topics.new_spec(made)


def refusal(body: bytes, kind: type = TopicCreate) -> tuple[int, list[str]]:
    with pytest.raises(Problem) as caught:
        read(body, kind)
    return caught.value.status, [error.field for error in caught.value.errors]


def test_a_topic_as_the_docs_write_it() -> None:
    body = decode_json(
        b'{"name":"a.b-c_1","partitions":2,"retention":{"mode":"retain","seconds":600,"bytes":1},'
        b'"dedup_window_seconds":60,"labels":{"team":"x y"}}',
        TopicCreate,
    )
    spec = topics.new_spec(body)
    assert (spec.name, body.partitions, spec.dedup_window_s) == ("a.b-c_1", 2, 60)
    assert (spec.retention.mode, spec.retention.seconds) == ("retain", 600)
    assert spec.retention.on_limit == "refuse"


def test_what_happens_at_a_limit_can_be_chosen() -> None:
    body = decode_json(b'{"name":"a","retention":{"on_limit":"expire_oldest"}}', TopicCreate)
    assert topics.new_spec(body).retention.on_limit == "expire_oldest"


def test_an_integer_may_be_written_as_a_float() -> None:
    assert decode_json(b'{"name":"a","partitions":3.0}', TopicCreate).partitions == 3
    body = decode_json(b'{"name":"a","ack_deadline_seconds":30}', SubscriptionCreate)
    assert body.ack_deadline_seconds == 30


DEEP = b"[" * 500 + b"]" * 500 + b","


@pytest.mark.parametrize(
    "values",
    [
        DEEP * (MAX_BODY_BYTES // len(DEEP)),
        b"{}," * (MAX_BODY_BYTES // 3),
        b"1.0," * (MAX_BODY_BYTES // 4),
        b'"\\"",' * (MAX_BODY_BYTES // 5),
        b'"' + b'\\"' * (MAX_BODY_BYTES // 4) + b"," * 50_000,
        b'"' + b"," * 50_000 + b'",' + b"{}," * MAX_CONTAINERS,
    ],
    ids=["deep", "objects", "floats", "strings", "a string without an end", "after a string"],
)
def test_a_body_of_very_many_values_is_refused_and_costs_little(values: bytes) -> None:
    body = b'{"name":"a","labels":[' + values + b"0]}"
    began_s = time.thread_time()
    assert refusal(body) == (400, [])
    assert time.thread_time() - began_s < 0.05


def test_values_are_not_counted_in_strings() -> None:
    text = ',[{"' * 20_000
    body = json.dumps({"name": "a", "labels": {"x": text}}).encode()
    assert decode_json(body, TopicCreate).labels == {"x": text}


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nope", b'{"name":"\xff"}', b"[" * 100_000, b'{"name":"\\ud800"}']
)
def test_what_is_no_json_is_400(body: bytes) -> None:
    assert refusal(body) == (400, [])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"[]", "body"),
        (b"{}", "name"),
        (b'{"name":1}', "name"),
        (b'{"name":""}', "name"),
        (b'{"name":"-a"}', "name"),
        (b'{"name":"a b"}', "name"),
        (b'{"name":"a\\n"}', "name"),
        (b'{"name":"' + b"a" * 129 + b'"}', "name"),
        (b'{"name":"a","parts":1}', "parts"),
        (b'{"name":"a","partitions":0}', "partitions"),
        (b'{"name":"a","partitions":257}', "partitions"),
        (b'{"name":"a","partitions":1.5}', "partitions"),
        (b'{"name":"a","partitions":"1"}', "partitions"),
        (b'{"name":"a","partitions":true}', "partitions"),
        (b'{"name":"a","partitions":1e300}', "partitions"),
        (b'{"name":"a","retention":{"mode":"keep"}}', "retention.mode"),
        (b'{"name":"a","retention":{"on_limit":"drop"}}', "retention.on_limit"),
        (b'{"name":"a","retention":{"second":1}}', "retention.second"),
        (b'{"name":"a","retention":{"seconds":599}}', "retention.seconds"),
        (b'{"name":"a","labels":{"k":1}}', "labels[...]"),
        (b'{"name":"a","labels":{"":"v"}}', "labels"),
        (b'{"name":"a","labels":{"k":"\\u0000"}}', "labels.k"),
    ],
)
def test_a_topic_that_does_not_fit_is_422_naming_the_field(body: bytes, field: str) -> None:
    assert refusal(body) == (422, [field])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"name":"a","type":"export"}', "type"),
        (b'{"name":"a","type":"push"}', "push"),
        (b'{"name":"a","delivery":"twice"}', "delivery"),
        (b'{"name":"a","ack_deadline_seconds":0.5}', "ack_deadline_seconds"),
        (b'{"name":"a","ack_deadline_seconds":43201}', "ack_deadline_seconds"),
        (b'{"name":"a","start":"now"}', "start"),
        (b'{"name":"a","start":{}}', "start"),
        (b'{"name":"a","start":{"offset":1,"time":"2026-01-01T00:00:00Z"}}', "start"),
        (b'{"name":"a","start":{"time":"2026-01-01T00:00:00"}}', "start.time"),
        (b'{"name":"a","start":{"offset":-1}}', "start.offset"),
        (
            b'{"name":"a","retry":{"min_backoff_seconds":9,"max_backoff_seconds":1}}',
            "retry.min_backoff_seconds",
        ),
        (b'{"name":"a","retry":{"max_attempts":0}}', "retry.max_attempts"),
    ],
)
def test_a_subscription_that_does_not_fit_is_422(body: bytes, field: str) -> None:
    assert refusal(body, SubscriptionCreate) == (422, [field])


def test_starts() -> None:
    body = decode_json(b'{"name":"a","start":{"offset":7}}', SubscriptionCreate)
    assert body.start == StartAt(offset=7)
    assert new_spec(body, "orders", never_pushed).start == {"offset": 7}
    body = decode_json(b'{"name":"a","start":{"time":"2026-01-01T00:00:00Z"}}', SubscriptionCreate)
    assert new_spec(body, "orders", never_pushed).start == {"time": "2026-01-01T00:00:00+00:00"}


@pytest.mark.parametrize(("raw", "size"), [(b"", 100), (b"page_size=7", 7), (b"page_size=1&x", 1)])
def test_integers_of_a_query(raw: bytes, size: int) -> None:
    assert Query({"query_string": raw}).integer(PAGE_SIZE) == size


@pytest.mark.parametrize("text", [b"0", b"1001", b"-1", b"1.0", b"x", b"", b"%E0%A4", b"9" * 30])
def test_a_query_out_of_range_is_400(text: bytes) -> None:
    with pytest.raises(Problem) as caught:
        Query({"query_string": b"page_size=" + text}).integer(PAGE_SIZE)
    assert (caught.value.status, caught.value.errors[0].field) == (400, "page_size")


@pytest.mark.parametrize(
    ("value", "version"), [(None, None), (b"*", None), (b'"12"', 12), (b"12", -1), (b'W/"1"', -1)]
)
def test_if_match(value: bytes | None, version: int | None) -> None:
    assert if_match(value) == version
