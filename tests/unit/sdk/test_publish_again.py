"""Test which requests the client sends again, what makes that harmless, and the delays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from packetboat import Client, Conflict, Outgoing, UnknownOutcome

from tests.unit.sdk.sdk_support import RECEIPT, Script, ok, problem

LOST = problem(504, "outcome-unknown")
STAGED = RECEIPT | {
    "offset": None,
    "publish_time": None,
    "scheduled_for": "2026-02-01T00:00:00Z",
    "accepted_time": "2026-01-31T00:00:00Z",
}


def client(*answers: Any) -> tuple[Client, Script]:
    script = Script(*answers)
    return Client(transport=script, retry_for_s=5), script


def test_a_publish_with_a_key_is_sent_again_after_an_unknown_outcome() -> None:
    boat, script = client(LOST, ok({"results": [RECEIPT | {"duplicate": True}]}))
    assert boat.publish("orders", b"x", idempotency_key="i").result().duplicate
    assert script.requests[0] == script.requests[1]
    assert "Packetboat-Producer" not in script.requests[0].headers


def test_a_publish_without_a_key_is_known_by_its_batch() -> None:
    boat, script = client(LOST, ok({"results": [RECEIPT | {"duplicate": True}]}))
    assert boat.publish("orders", b"x").result().duplicate
    assert script.requests[0] == script.requests[1]
    assert "Packetboat-Producer" in script.requests[0].headers


def test_a_batch_is_sent_again_under_the_same_number_and_the_next_has_another() -> None:
    answer = ok({"results": [RECEIPT]})
    boat, script = client(LOST, answer, answer)
    boat.publish_batch("orders", [b"x"])
    boat.publish_batch("orders", [b"x"])
    first, again, after = (
        (r.headers["Packetboat-Producer"], int(r.headers["Packetboat-Sequence"]))
        for r in script.requests
    )
    assert first == again
    assert after == (first[0], first[1] + 1)
    assert len(bytes.fromhex(first[0])) == 16
    other, seen = client(answer)
    other.publish_batch("orders", [b"x"])
    assert seen.requests[0].headers["Packetboat-Producer"] != first[0]


def test_a_batch_with_keys_of_its_own_is_known_by_them() -> None:
    answer = ok({"results": [RECEIPT]})
    keyed = Outgoing(data=b"x", idempotency_key="i")
    boat, script = client(LOST, answer)
    boat.publish_batch("orders", [keyed])
    assert "Packetboat-Producer" not in script.requests[1].headers
    boat, script = client(LOST)
    with pytest.raises(UnknownOutcome):
        boat.publish_batch("orders", [keyed, b"without"])


def test_delays() -> None:
    boat, script = client(*[ok({"results": [STAGED]})] * 3)
    receipt = boat.publish("orders", b"x", delay_seconds=1.5).result()
    assert (receipt.offset, receipt.publish_time) == (None, None)
    assert receipt.scheduled_for == datetime(2026, 2, 1, tzinfo=UTC)
    moment = datetime(2026, 2, 1, tzinfo=UTC)
    boat.publish("orders", b"x", deliver_at=moment, ttl_seconds=90).result()
    boat.publish_batch("orders", [Outgoing(data=b"x", deliver_at=moment, ttl_seconds=90)])
    (item,) = msgspec.msgpack.decode(script.requests[0].body)["messages"]
    assert item["delay_seconds"] == 1.5
    for request in script.requests[1:]:
        (item,) = msgspec.msgpack.decode(request.body)["messages"]
        assert item["deliver_at"] == "2026-02-01T00:00:00+00:00"
        assert item["ttl_seconds"] == 90
    with pytest.raises(ValueError, match="time zone"):
        boat.publish("orders", b"x", deliver_at=datetime(2026, 2, 1))


def test_cancel_and_reschedule() -> None:
    moment = datetime(2026, 2, 1, tzinfo=UTC)
    boat, script = client(
        problem(503, "store-unavailable"),
        problem(204, ""),
        ok({"message_id": "m", "scheduled_for": "2026-02-01T00:00:00Z"}),
        problem(409, "already-released"),
    )
    boat.messages.cancel("or/ders", "m")
    assert boat.messages.reschedule("orders", "m", deliver_at=moment + timedelta(0)) == moment
    with pytest.raises(Conflict):
        boat.messages.reschedule("orders", "m", delay_seconds=0)
    paths = [(request.method, request.path) for request in script.requests]
    assert paths[1:3] == [
        ("DELETE", "/topics/or%2Fders/messages/m"),
        ("PATCH", "/topics/orders/messages/m"),
    ]
    assert script.body() == {"delay_seconds": 0}
