"""Test each decision of the publisher: batches, order, failures, the buffer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from packetboat.errors import (
    BufferFull,
    ClientClosed,
    ConnectionFailed,
    Dropped,
    InvalidRequest,
    NotAuthorized,
    NotDone,
    Overloaded,
    PacketboatError,
    PrecedingFailed,
    ServerError,
    Unavailable,
    UnknownOutcome,
)
from packetboat.models import Receipt
from packetboat.publisher.batch import Batch
from packetboat.publisher.core import Core
from packetboat.publisher.pending import Pending, pending
from packetboat.publisher.results import Result
from packetboat.publisher.settings import PublisherSettings
from packetboat.publisher.topic import ENOUGH_BYTES, PATIENCE_S

from tests.unit.sdk.publisher_model import core_of, message, problem

RECEIPT = Receipt("m", "t", 0, 0, None)
GONE = problem(503, "partition-unavailable")
LATER = 10.0


def settings(**given: Any) -> PublisherSettings:
    return PublisherSettings(**given)


def accept(core: Core, *messages: Pending, now_s: float = 0.0) -> None:
    for each in messages:
        core.accept("t", each, now_s)


def bodies(batch: Batch) -> list[bytes]:
    items = msgspec.msgpack.decode(batch.call.request.body)["messages"]
    return [item["data"] for item in items]


def outcomes(core: Core) -> dict[bytes, Result]:
    return {
        msgspec.msgpack.decode(each.message.encoded)["data"]: each.outcome
        for each in core.ledger.take_settled()
    }


def keyed(*texts: bytes, key: str = "k") -> list[Pending]:
    return [message(text, key) for text in texts]


def only(core: Core, now_s: float = 0.0) -> Batch:
    (batch,) = core.next_batches(now_s)
    return batch


# Which messages go, and when.


def test_what_is_there_goes_at_once_and_what_comes_meanwhile_goes_next() -> None:
    core = core_of()
    accept(core, message(b"1"), message(b"2"))
    first = only(core)
    assert bodies(first) == [b"1", b"2"]
    accept(core, message(b"3"), message(b"4"))
    assert core.next_batches(0.001) == []
    core.answered(first, [RECEIPT] * 2, 0.002)
    assert bodies(only(core, 0.002)) == [b"3", b"4"]


def test_few_messages_wait_for_what_is_out_but_not_for_long() -> None:
    core = core_of()
    accept(core, message(b"1"))
    only(core)
    accept(core, message(b"2"))
    assert core.next_batches(0.0) == []
    assert core.wake_s(0.0) == PATIENCE_S
    assert bodies(only(core, PATIENCE_S)) == [b"2"]


def test_many_messages_are_shared_between_requests_that_are_worth_it() -> None:
    core = core_of()
    accept(core, *(message(b"%d" % n) for n in range(256)))
    assert [len(batch.messages) for batch in core.next_batches(0.0)] == [128, 128]
    accept(core, *(message(b"%d" % n) for n in range(5000)))
    assert [len(batch.messages) for batch in core.next_batches(0.0)] == [1000, 1000]


@pytest.mark.parametrize(
    ("ready", "batches"),
    [(1000, [500, 500]), (2000, [500] * 4), (10_000, [1000] * 4), (600, [300, 300])],
)
def test_two_batches_share_what_is_there_and_more_are_large(ready: int, batches: list[int]) -> None:
    core = core_of()
    accept(core, *(message(b"%d" % n) for n in range(ready)))
    assert [len(batch.messages) for batch in core.next_batches(0.0)] == batches


def test_few_large_messages_are_worth_a_request_beside_another() -> None:
    core = core_of()
    large = b"x" * (ENOUGH_BYTES // 8)
    accept(core, message(large))
    only(core)
    accept(core, *(message(large) for _ in range(6)))
    assert core.next_batches(0.0) == []
    accept(core, *(message(large) for _ in range(2)))
    assert len(only(core).messages) == 8


def test_the_keys_of_many_messages_are_shared_too() -> None:
    core = core_of()
    accept(core, *(message(b"%d" % n, f"key {n}") for n in range(256)))
    first, second = core.next_batches(0.0)
    assert len(first.messages) + len(second.messages) == 256
    assert len(second.messages) >= 100


def test_of_a_key_one_batch_is_out() -> None:
    core = core_of()
    accept(core, *keyed(b"1"))
    first = only(core)
    accept(core, *keyed(b"2"), message(b"3", "another"))
    second = only(core, LATER)
    assert bodies(second) == [b"3"]
    core.answered(first, [RECEIPT], LATER)
    assert bodies(only(core, 2 * LATER)) == [b"2"]


def test_a_batch_is_bounded_in_bytes_and_a_large_message_goes_alone() -> None:
    core = core_of(settings(max_batch_bytes=1000))
    accept(core, message(b"a" * 3000), message(b"b" * 600), message(b"c" * 600))
    assert [len(batch.messages) for batch in core.next_batches(LATER)] == [1]
    assert [len(batch.messages) for batch in core.next_batches(2 * LATER)] == [1]


def test_linger_waits_for_company_unless_there_is_haste() -> None:
    core = core_of(settings(linger_s=1.0, max_batch_messages=3))
    accept(core, message(b"1"))
    assert core.next_batches(0.5) == []
    assert core.wake_s(0.9) == 1.0
    assert len(core.next_batches(1.0)) == 1
    accept(core, message(b"2"), message(b"3"), message(b"4"), now_s=LATER)
    assert len(only(core, LATER).messages) == 3
    accept(core, message(b"5"), now_s=2 * LATER)
    core.hurry()
    assert len(core.next_batches(2 * LATER)) == 1


def test_what_is_said_in_headers_parts_batches() -> None:
    core = core_of()
    plain = message(b"plain")
    named = pending(b"named", None, None, None, 0, None, None, None, None, "till 4 ü", "all")
    own = message(b"own", idempotency_key="once")
    accept(core, plain, named, own)
    batches = [only(core, now_s) for now_s in (0.0, 1.0, 2.0)]
    assert [bodies(batch) for batch in batches] == [[b"plain"], [b"named"], [b"own"]]
    headers = [batch.call.request.headers for batch in batches]
    assert headers[1]["Packetboat-Publisher-Id"] == "till%204%20%C3%BC"
    assert headers[1]["Packetboat-Durability"] == "all"
    assert "Packetboat-Producer" in headers[0]
    assert "Packetboat-Producer" not in headers[2]
    sequences = [int(each["Packetboat-Sequence"]) for each in headers[:2]]
    assert sequences[0] < sequences[1]


def test_an_item_says_all_of_a_message() -> None:
    new = pending({"n": 1}, "k", {"a": "b"}, None, 3, "i", 1.5, None, 9.0, None, None)
    assert msgspec.msgpack.decode(new.encoded) == {
        "data": b'{"n":1}',
        "content_type": "application/json",
        "key": "k",
        "attributes": {"a": "b"},
        "priority": 3,
        "idempotency_key": "i",
        "delay_seconds": 1.5,
        "ttl_seconds": 9.0,
    }
    with pytest.raises(TypeError):
        pending(object(), None, None, None, 0, None, None, None, None, None, None)  # type: ignore[arg-type]


# Failures and retries.


@pytest.mark.parametrize(
    "error",
    [ConnectionFailed("x"), GONE, problem(429, "rate-limited"), problem(408, "body-timeout")],
    ids=lambda error: type(error).__name__,
)
def test_what_was_refused_goes_again_under_another_name(error: PacketboatError) -> None:
    core = core_of()
    accept(core, message(b"1"))
    first = only(core)
    core.failed(first, error, 0.0)
    accept(core, message(b"2"))
    second = only(core, LATER)
    assert sorted(bodies(second)) == [b"1", b"2"]
    assert second.name != first.name


@pytest.mark.parametrize(
    "error",
    [UnknownOutcome("x"), problem(504, "outcome-unknown"), ServerError(500, "x")],
    ids=["cut", "504", "500"],
)
def test_what_may_be_stored_goes_again_as_it_was(error: PacketboatError) -> None:
    core = core_of()
    accept(core, message(b"1"))
    first = only(core)
    request = first.call.request
    core.failed(first, error, 0.0)
    accept(core, message(b"2"))
    assert only(core, LATER).call.request == request
    assert bodies(only(core, LATER + PATIENCE_S)) == [b"2"]
    core.failed(first, GONE, LATER + PATIENCE_S)
    assert only(core, 2 * LATER).call.request == request


def test_a_refusal_says_when_to_come_back() -> None:
    core = core_of()
    accept(core, message(b"1"))
    refusal = Overloaded(problem(429, "rate-limited").problem, 5.0)  # type: ignore[attr-defined]
    core.failed(only(core), refusal, 0.0)
    assert core.next_batches(4.9) == []
    assert len(core.next_batches(8.0)) == 1


def test_part_of_a_batch_goes_again_before_what_is_behind_it() -> None:
    core = core_of()
    accept(core, *keyed(b"1", b"2"), *keyed(b"3", key="another"))
    batch = only(core)
    accept(core, *keyed(b"4"))
    answers = {b"1": GONE, b"2": GONE, b"3": RECEIPT}
    core.answered(batch, [answers[body] for body in bodies(batch)], 0.0)
    assert outcomes(core) == {b"3": RECEIPT}
    assert core.next_batches(0.0) == []
    assert bodies(only(core, LATER)) == [b"1", b"2", b"4"]


def test_an_unknown_part_goes_again_with_all_of_its_batch_and_is_told_once() -> None:
    core = core_of()
    accept(core, *keyed(b"1"), *keyed(b"2", key="another"))
    batch = only(core)
    request = batch.call.request
    core.answered(batch, [RECEIPT, problem(504, "outcome-unknown")], 0.0)
    assert len(outcomes(core)) == 1
    again = only(core, LATER)
    assert again.call.request == request
    core.answered(again, [RECEIPT] * 2, LATER)
    assert len(outcomes(core)) == 1
    assert core.ledger.messages == core.ledger.size_bytes == 0


def test_a_wrong_message_takes_those_of_its_key_along_that_were_behind_it() -> None:
    core = core_of()
    accept(core, *keyed(b"bad", b"2"))
    batch = only(core)
    accept(core, *keyed(b"3"), message(b"4", "another"))
    wrong, held = problem(422, "invalid-request"), problem(424, "preceding-item-failed")
    core.answered(batch, [wrong, held], 0.0)
    told = outcomes(core)
    assert told[b"bad"] is wrong
    assert isinstance(told[b"2"], PrecedingFailed)
    assert isinstance(told[b"3"], PrecedingFailed)
    assert len(told) == 3
    accept(core, *keyed(b"5"))
    assert sorted(bodies(only(core, LATER))) == [b"4", b"5"]


@pytest.mark.parametrize("behind", [GONE, UnknownOutcome("x")], ids=["refused", "unknown"])
def test_none_of_a_key_is_tried_again_behind_one_that_failed(behind: PacketboatError) -> None:
    core = core_of()
    accept(core, *keyed(b"1", b"2", b"3"))
    core.answered(only(core), [GONE, problem(422, "invalid-request"), behind], 0.0)
    told = outcomes(core)
    assert isinstance(told[b"2"], InvalidRequest)
    kind = PrecedingFailed if behind is GONE else UnknownOutcome
    assert isinstance(told[b"3"], kind)
    assert b"1" in bodies(only(core, LATER))
    assert len(told) == 2


def test_behind_a_wrong_message_none_was_stored_by_an_earlier_try_either() -> None:
    core = core_of()
    accept(core, *keyed(b"1", b"2"))
    core.failed(only(core), UnknownOutcome("cut"), 0.0)
    answer = [problem(422, "invalid-request"), problem(424, "preceding-item-failed")]
    core.answered(only(core, LATER), answer, LATER)
    assert isinstance(outcomes(core)[b"2"], PrecedingFailed)


def test_a_paused_key_waits_to_be_resumed() -> None:
    core = core_of(settings(on_key_failure="pause"))
    accept(core, *keyed(b"1"))
    core.answered(only(core), [problem(422, "invalid-request")], 0.0)
    with pytest.raises(PrecedingFailed, match="resume_key"):
        accept(core, *keyed(b"2"))
    accept(core, *keyed(b"3", key="another"))
    core.resume_key("t", "k")
    accept(core, *keyed(b"4"))
    assert sorted(bodies(only(core))) == [b"3", b"4"]


def test_a_refused_token_ends_all_of_the_batch_each_with_an_error_of_its_own() -> None:
    core = core_of()
    accept(core, message(b"1"), message(b"2"))
    core.failed(only(core), problem(403, "forbidden"), 0.0)
    errors = list(outcomes(core).values())
    assert [type(error) for error in errors] == [NotAuthorized] * 2
    assert errors[0] is not errors[1]


def test_after_an_unknown_try_a_refused_token_leaves_it_unknown() -> None:
    core = core_of()
    accept(core, message(b"1"))
    batch = only(core)
    core.failed(batch, UnknownOutcome("cut"), 0.0)
    core.failed(only(core, LATER), problem(403, "forbidden"), LATER)
    (error,) = outcomes(core).values()
    assert isinstance(error, UnknownOutcome)
    assert error.idempotency_key


def test_after_an_unknown_try_an_item_that_is_not_found_is_unknown_and_a_wrong_one_wrong() -> None:
    core = core_of()
    accept(core, message(b"1"), message(b"2"))
    core.failed(only(core), UnknownOutcome("cut"), 0.0)
    answer = [problem(404, "topic-not-found"), problem(422, "invalid-request")]
    core.answered(only(core, LATER), answer, LATER)
    told = outcomes(core)
    assert isinstance(told[b"1"], UnknownOutcome)
    assert isinstance(told[b"2"], InvalidRequest)


def test_a_request_that_is_too_large_on_the_way_goes_in_parts() -> None:
    core = core_of()
    accept(core, *(message(b"x" * 100 + b"%d" % n) for n in range(8)))
    core.failed(only(core), problem(413, "body-too-large"), 0.0)
    assert len(only(core).messages) < 5


def test_a_message_that_is_too_large_alone_is_told() -> None:
    core = core_of()
    accept(core, message(b"1"))
    core.failed(only(core), problem(413, "body-too-large"), 0.0)
    assert isinstance(outcomes(core)[b"1"], InvalidRequest)


# The end of patience.


def test_what_was_never_sent_is_not_done() -> None:
    core = core_of(settings(deadline_s=1.0))
    accept(core, *keyed(b"1"))
    batch = only(core)
    accept(core, *keyed(b"2", b"3"), now_s=0.5)
    accept(core, *keyed(b"4", key="another"), now_s=0.5)
    core.expire(1.0)
    told = outcomes(core)
    assert isinstance(told[b"1"], UnknownOutcome)
    assert isinstance(told[b"2"], PrecedingFailed)
    assert isinstance(told[b"3"], PrecedingFailed)
    core.answered(batch, [RECEIPT], 1.1)
    core.expire(1.5)
    assert type(outcomes(core)[b"4"]) is NotDone
    assert core.ledger.messages == 0
    assert core.wake_s(2.0) is None


def test_many_whose_time_is_over_are_settled_bit_by_bit() -> None:
    core = core_of(settings(deadline_s=1.0))
    core.accept("t", message(b"out"), 0.0)
    (out,) = core.next_batches(0.0)
    for number in range(2500):
        core.accept("u", message(b"%d" % number, f"key {number}"), 0.0)
    assert core.expire(1.0)
    assert core.expire(1.0)
    assert not core.expire(1.0)
    assert len(outcomes(core)) == 2501
    core.answered(out, [RECEIPT], 1.0)
    assert core.ledger.messages == 0


def test_what_was_refused_to_the_end_is_told_why() -> None:
    core = core_of(settings(deadline_s=1.0))
    accept(core, message(b"1"))
    core.failed(only(core), GONE, 0.9)
    core.expire(1.0)
    assert isinstance(outcomes(core)[b"1"], Unavailable)


def test_what_may_be_stored_at_the_end_names_its_key() -> None:
    core = core_of(settings(deadline_s=1.0))
    accept(core, message(b"own", idempotency_key="once"))
    core.failed(only(core), UnknownOutcome("cut"), 0.1)
    core.expire(1.0)
    error = outcomes(core)[b"own"]
    assert isinstance(error, UnknownOutcome)
    assert error.idempotency_key == "once"
    assert "cut" in str(error)
    assert core.next_batches(LATER) == []


def test_a_batch_nobody_waits_for_keeps_its_keys_until_it_ends() -> None:
    core = core_of(settings(deadline_s=1.0))
    accept(core, *keyed(b"1"))
    batch = only(core)
    core.expire(1.0)
    accept(core, *keyed(b"2"), now_s=1.0)
    assert core.next_batches(1.5) == []
    core.failed(batch, UnknownOutcome("cut"), 1.6)
    assert bodies(only(core, 1.6)) == [b"2"]


def test_abandoned_messages_are_told_whether_they_were_out() -> None:
    core = core_of()
    accept(core, *keyed(b"1"))
    batch = only(core)
    accept(core, *keyed(b"2"))
    core.abandon(ClientClosed("closed"))
    told = outcomes(core)
    assert isinstance(told[b"1"], UnknownOutcome)
    assert isinstance(told[b"2"], ClientClosed)
    core.failed(batch, UnknownOutcome("cut"), 0.0)
    assert outcomes(core) == {}


# Publishing again what may be stored.


def unknown_batch(core: Core) -> tuple[Batch, dict[bytes, str]]:
    """Let a batch of two messages end unknown; return it with the keys that their errors name."""
    accept(core, *keyed(b"1", b"2"))
    batch = only(core)
    core.failed(batch, UnknownOutcome("cut"), 0.0)
    core.expire(60.0)
    keys = {}
    for body, error in outcomes(core).items():
        assert isinstance(error, UnknownOutcome)
        assert error.idempotency_key is not None
        keys[body] = error.idempotency_key
    return batch, keys


def test_under_the_key_that_its_error_names_the_same_batch_goes_out() -> None:
    core = core_of()
    batch, keys = unknown_batch(core)
    accept(core, message(b"2", "k", keys[b"2"]), now_s=61.0)
    again = only(core, 61.0)
    assert again.call.request == batch.call.request
    core.answered(again, [RECEIPT] * 2, 61.0)
    assert outcomes(core) == {b"2": RECEIPT}
    assert core.ledger.messages == 0


def test_it_is_told_of_a_try_that_is_under_way_anyhow() -> None:
    core = core_of(settings(deadline_s=1.0))
    accept(core, *keyed(b"1"))
    batch = only(core)
    core.expire(1.0)
    error = outcomes(core)[b"1"]
    assert isinstance(error, UnknownOutcome)
    accept(core, message(b"1", "k", error.idempotency_key), now_s=1.0)
    assert core.next_batches(1.0) == []
    core.answered(batch, [RECEIPT], 1.1)
    assert outcomes(core) == {b"1": RECEIPT}


def test_after_an_unknown_outcome_was_told_a_refusal_changes_nothing_about_the_batch() -> None:
    core = core_of(settings(deadline_s=1.0))
    accept(core, *keyed(b"1"))
    batch = only(core)
    accept(core, message(b"late"), now_s=0.9)
    core.expire(1.0)
    core.failed(batch, GONE, 1.1)
    error = outcomes(core)[b"1"]
    assert isinstance(error, UnknownOutcome)
    accept(core, message(b"1", "k", error.idempotency_key), now_s=1.2)
    again = core.next_batches(LATER)
    assert batch.call.request in [each.call.request for each in again]


def test_a_key_is_good_for_its_message_and_client_and_once_at_a_time() -> None:
    core = core_of()
    _, keys = unknown_batch(core)
    with pytest.raises(ValueError, match="another message"):
        accept(core, message(b"1", "k", keys[b"2"]))
    with pytest.raises(ValueError, match="anywhere"):
        accept(core_of(), message(b"2", "k", keys[b"2"]))
    accept(core, message(b"2", "k", keys[b"2"]))
    with pytest.raises(ValueError, match="being published"):
        accept(core, message(b"2", "k", keys[b"2"]))
    assert core.ledger.messages == 1


def test_what_is_remembered_is_bounded() -> None:
    core = core_of(settings(max_buffered_bytes=100, deadline_s=1.0))
    keys = []
    for number in range(5):
        accept(core, message(b"x" * 50), now_s=number)
        core.failed(only(core, number), UnknownOutcome("cut"), number)
        core.expire(number + 1)
        (error,) = outcomes(core).values()
        assert isinstance(error, UnknownOutcome)
        keys.append(error.idempotency_key)
    with pytest.raises(ValueError, match="for a while"):
        accept(core, message(b"x" * 50, None, keys[0]))
    accept(core, message(b"x" * 50, None, keys[-1]))


# The buffer.


@pytest.mark.parametrize("limit", ["max_buffered_messages", "max_buffered_bytes"])
def test_a_full_buffer_refuses(limit: str) -> None:
    full = 2 if limit == "max_buffered_messages" else 40
    core = core_of(settings(**{limit: full}))
    accept(core, message(b"x" * 12), message(b"x" * 12))
    assert not core.ledger.has_room or limit == "max_buffered_bytes"
    with pytest.raises(BufferFull):
        accept(core, message(b"x" * 12))
    core.answered(only(core), [RECEIPT] * 2, 0.0)
    accept(core, message(b"x" * 12))


def test_a_message_larger_than_the_buffer_fits_when_that_is_empty() -> None:
    core = core_of(settings(max_buffered_bytes=10))
    accept(core, message(b"x" * 100))
    with pytest.raises(BufferFull):
        accept(core, message(b""))


def test_a_line_waits_for_a_full_buffer() -> None:
    core = core_of(settings(max_buffered_messages=2), line=2)
    accept(core, *(message(b"%d" % n) for n in range(4)))
    assert not core.ledger.has_room
    with pytest.raises(BufferFull):
        accept(core, message(b"5"))


def test_the_oldest_is_dropped_but_nothing_that_is_out() -> None:
    core = core_of(settings(max_buffered_messages=2, overflow="drop_oldest"))
    accept(core, message(b"out"))
    only(core)
    core.accept("another", message(b"old"), 1.0)
    core.accept("t", message(b"new"), 2.0)
    assert isinstance(outcomes(core)[b"old"], Dropped)
    core.accept("t", message(b"newest"), 3.0)
    assert list(outcomes(core)) == [b"new"]


def test_where_all_is_out_nothing_can_be_dropped() -> None:
    core = core_of(settings(max_buffered_messages=1, overflow="drop_oldest"))
    accept(core, message(b"out"))
    only(core)
    with pytest.raises(BufferFull):
        accept(core, message(b"new"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_batch_messages", 1001),
        ("max_batch_bytes", 0),
        ("max_batches_in_flight", 0),
        ("max_buffered_messages", 0),
        ("linger_s", -1),
        ("deadline_s", 0),
        ("overflow", "explode"),
        ("on_key_failure", "ignore"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        settings(**{name: value})
