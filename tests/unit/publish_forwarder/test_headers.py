from __future__ import annotations

from urllib.parse import quote

import msgspec
import pytest

from edge.problem import Problem
from publish_forwarder.headers import parse, parse_batch
from store_nodes.record_batch import Message
from store_nodes.wire import Durability


def headers(**given: str) -> list[tuple[bytes, bytes]]:
    """Return headers: `packetboat_key="x"` becomes one."""
    return [(k.replace("_", "-").encode(), v.encode("utf-8")) for k, v in given.items()]


def message(**given: str) -> Message:
    return parse(headers(**given)).message


def refusal(**given: str) -> Problem:
    with pytest.raises(Problem) as caught:
        parse(headers(**given))
    return caught.value


def test_a_request_without_ours_is_a_plain_message() -> None:
    assert message(host="x", accept="*/*", x_forwarded_for="1.2.3.4") == Message(b"")


def test_all_metadata() -> None:
    metadata = parse(
        headers(
            content_type="text/csv; charset=utf-8",
            content_length="17",
            packetboat_key="kunde%20%C3%BC",
            packetboat_publisher_id="till-4",
            packetboat_priority="9",
            packetboat_durability="all",
            packetboat_attributes=quote(msgspec.json.encode({"Größe": "XL"})),
            packetboat_attr_region="eu",
            ce_type="order.made",
            idempotency_key="abc-1",
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            tracestate="a=1,b=2",
        )
    )
    assert metadata.durability is Durability.ALL
    assert metadata.content_length == 17
    assert metadata.message == Message(
        b"",
        content_type="text/csv; charset=utf-8",
        key="kunde ü",
        attributes={"Größe": "XL", "region": "eu", "ce-type": "order.made"},
        publisher_id="till-4",
        priority=9,
        idempotency_key="abc-1",
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        tracestate="a=1,b=2",
    )


def test_a_trace_state_in_several_headers_is_one_list() -> None:
    several = [(b"tracestate", b"a=1"), (b"tracestate", b"b=2")]
    assert parse(several).message.tracestate == "a=1,b=2"


@pytest.mark.parametrize("value", ["", "x" * 513, "a=\x01", "ü"])
def test_a_trace_state_that_is_none_is_left_out(value: str) -> None:
    assert message(tracestate=value).tracestate is None


def test_a_percent_that_starts_no_escape_stands_for_itself() -> None:
    assert message(packetboat_key="100%").key == "100%"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"packetboat_key": ""}, "Packetboat-Key"),
        ({"packetboat_key": "k" * 1025}, "Packetboat-Key"),
        ({"packetboat_key": "%FF"}, "Packetboat-Key"),
        ({"packetboat_key": "ü"}, "Packetboat-Key"),
        ({"packetboat_priority": "10"}, "Packetboat-Priority"),
        ({"packetboat_priority": "-1"}, "Packetboat-Priority"),
        ({"packetboat_priority": "high"}, "Packetboat-Priority"),
        ({"packetboat_durability": "some"}, "Packetboat-Durability"),
        ({"packetboat_attributes": "{"}, "Packetboat-Attributes"),
        ({"packetboat_attributes": "[]"}, "Packetboat-Attributes"),
        ({"packetboat_attributes": '{"a":1}'}, "Packetboat-Attributes"),
        ({"packetboat_attributes": '{"":"x"}'}, "Packetboat-Attributes"),
        ({"packetboat_attributes": '{"a":"\\ud800"}'}, "Packetboat-Attributes"),
        ({"packetboat_attr_a": "ü"}, "packetboat-attr-a"),
        ({"packetboat_attr_": "x"}, "packetboat-attr-"),
        ({"packetboat_kye": "x"}, "packetboat-kye"),
        ({"idempotency_key": "x" * 257}, "Idempotency-Key"),
        ({"content_type": "x" * 257}, "Content-Type"),
    ],
)
def test_wrong_metadata_is_refused_by_name(given: dict[str, str], field: str) -> None:
    problem = refusal(**given)
    assert problem.status == 422
    assert [error.field for error in problem.errors] == [field]


@pytest.mark.parametrize(
    ("text", "ttl_ms"), [("5", 5000), ("0.25", 250), ("1e-6", 1), ("31536000", 31_536_000_000)]
)
def test_a_time_to_live_is_kept_in_milliseconds(text: str, ttl_ms: int) -> None:
    assert message(packetboat_ttl=text).ttl_ms == ttl_ms


@pytest.mark.parametrize("text", ["0", "-1", "soon", "", "31536000.5", "nan"])
def test_a_time_to_live_has_limits(text: str) -> None:
    problem = refusal(packetboat_ttl=text)
    assert (problem.status, problem.errors[0].field) == (422, "Packetboat-TTL")


def test_attribute_limits() -> None:
    many = {f"a{n}": "v" for n in range(100)}
    assert message(packetboat_attributes=quote(msgspec.json.encode(many))).attributes == many
    assert refusal(packetboat_attributes=quote(msgspec.json.encode(many | {"b": ""}))).status == 422
    assert refusal(packetboat_attr_a="v" * 1025).status == 422
    assert refusal(**{"packetboat_attr_" + "n" * 257: "v"}).status == 422
    assert message(**{"packetboat_attr_" + "n" * 256: "v" * 1024}).attributes is not None


def test_an_attribute_given_twice_is_refused() -> None:
    assert refusal(packetboat_attributes='{"a":"1"}', packetboat_attr_a="2").status == 422


def test_headers_over_48_kib_name_the_batch() -> None:
    given = {f"packetboat_attr_a{n}": "v" * 1000 for n in range(50)}
    problem = refusal(**given)
    assert problem.status == 431
    assert ":batch" in problem.detail


def test_an_encoded_body_is_refused() -> None:
    assert refusal(content_encoding="gzip").status == 415
    assert message(content_encoding="identity") == Message(b"")


def test_a_batch_takes_only_what_holds_for_all() -> None:
    metadata = parse_batch(headers(packetboat_publisher_id="p", packetboat_durability="leader"))
    assert metadata.message.publisher_id == "p"
    assert metadata.durability is Durability.LEADER
    for name in ("packetboat_key", "idempotency_key", "packetboat_attr_x", "ce_id"):
        with pytest.raises(Problem, match="one message"):
            parse_batch(headers(**{name: "x"}))
