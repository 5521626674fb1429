"""Test the answers to deliveries, challenges and tests, and to repeated ones."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from packetboat.webhooks import (
    Answer,
    DeliverLater,
    Delivery,
    Gone,
    Pace,
    Receiver,
    RecentIds,
    Reject,
    SeenIds,
)

from openapi.push import AttemptOutcome
from store_nodes.record_batch import Message
from subscribe_forwarder.push.requests import PushRequest
from subscribe_forwarder.push.sender import Answer as SentAnswer
from subscribe_forwarder.push.verdict import judge, throttle_of
from tests.unit.sdk.webhook_support import NOW_S, Broken, Hook, Takes, headers_of, message_id, pair

KEY = pair()
HOOK = Hook(KEY)


def json_message(text: str) -> Message:
    return Message(text.encode(), "application/json")


def receiver(seen: SeenIds | None = None) -> Receiver:
    return Receiver(KEY.told, seen=seen, clock=lambda: NOW_S)


def answered(
    one: Receiver, request: PushRequest, handler: Callable[[Delivery], Any] | None = None
) -> Answer:
    return one.answer(request.body, headers_of(request), handler or Takes())


def verdict(answer: Answer) -> Any:
    """Return the server's verdict on an answer."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return judge(SentAnswer(answer.status, headers, answer.body, 0.1, ""), NOW_S)


def raising(error: Exception) -> Callable[[Delivery], None]:
    def handler(delivery: Delivery) -> None:
        raise error

    return handler


@pytest.mark.parametrize(
    ("error", "status", "outcome"),
    [
        (DeliverLater("full"), 503, "busy"),
        (Reject("no order"), 422, "refused"),
        (Gone("closed"), 410, "gone"),
    ],
    ids=["retry", "reject", "gone"],
)
def test_what_a_handler_says_the_server_understands(
    error: Exception, status: int, outcome: AttemptOutcome
) -> None:
    answer = answered(receiver(), HOOK.push(json_message("1")), raising(error))
    assert (answer.status, answer.body) == (status, str(error).encode())
    assert verdict(answer).outcome is outcome


def test_one_that_is_taken_is_acked() -> None:
    takes = Takes()
    answer = answered(receiver(), HOOK.push(json_message("1"), json_message("2")), takes)
    assert (answer, takes.taken) == (Answer(204, {}), [1, 2])
    assert verdict(answer).outcome == "delivered"


def test_when_to_come_again_is_told() -> None:
    answer = answered(receiver(), HOOK.push(json_message('"retry"')))
    assert verdict(answer).retry_after_s == 7


def test_how_much_is_wanted_is_told() -> None:
    pace = Pace(messages_per_second=2.5, concurrency=3, for_s=30)
    answer = answered(receiver(), HOOK.push(json_message("1")), lambda _: pace)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert throttle_of(headers) == (2.5, 3, 30)
    assert answer.status == 204


def test_a_bug_goes_on_to_the_framework() -> None:
    with pytest.raises(Broken):
        answered(receiver(), HOOK.push(json_message('"break"')))


def test_what_no_handler_returns_does_not_ack() -> None:
    with pytest.raises(TypeError, match="returned tuple"):
        answered(receiver(), HOOK.push(json_message("1")), lambda _: ("bad", 400))


def test_a_challenge_is_repeated_and_handed_to_nobody() -> None:
    answer = answered(receiver(), HOOK.challenge("abc"), raising(Broken()))
    assert (answer.status, answer.body) == (200, b"abc")


def test_a_sample_is_answered_and_handed_to_nobody() -> None:
    request = HOOK.push(json_message("1"))
    test = Hook(KEY)
    asked = test._requests.challenge(test.subscription, "test_x", request.body, NOW_S)
    answer = answered(receiver(), asked, raising(Broken()))
    assert answer == Answer(204, {})


def test_whom_nobody_knows_is_told_why() -> None:
    answer = answered(receiver(), Hook(pair()).push(json_message("1")), raising(Broken()))
    assert answer.status == 401
    assert answer.body.startswith(b"webhook-signature: ")


def test_what_was_taken_is_not_handed_out_again() -> None:
    takes, one = Takes(), receiver(RecentIds())
    first = HOOK.push(json_message("1"), json_message("2"))
    for request in (first, first, HOOK.push(json_message("1"), attempt=2)):
        assert answered(one, request, takes).status == 204
    assert takes.taken == [1, 2]


def test_of_a_batch_only_what_is_new_is_handed_out() -> None:
    takes, one = Takes(), receiver(RecentIds())
    answered(one, HOOK.push(json_message("1")), takes)
    answered(one, HOOK.push(json_message("1"), json_message("2")), takes)
    assert takes.taken == [1, 2]


@pytest.mark.parametrize("data", ['"retry"', '"reject"', '"break"'])
def test_what_was_not_taken_is_handed_out_again(data: str) -> None:
    takes, one = Takes(), receiver(RecentIds())
    with contextlib.suppress(Broken):
        answered(one, HOOK.push(json_message(data)), takes)
    assert answered(one, HOOK.push(json_message("1"), attempt=2), takes).status == 204
    assert takes.taken == [1]


def test_what_somebody_is_working_on_comes_again() -> None:
    one, inside, leave = receiver(RecentIds()), threading.Event(), threading.Event()

    def slow(delivery: Delivery) -> None:
        inside.set()
        assert leave.wait(30)

    working = threading.Thread(target=answered, args=(one, HOOK.push(json_message("1")), slow))
    working.start()
    assert inside.wait(30)
    both = HOOK.push(json_message("1"), json_message("2"))
    answer = answered(one, both)
    assert (answer.status, verdict(answer).retry_after_s) == (503, 1)
    leave.set()
    working.join(30)
    takes = Takes()
    assert answered(one, both, takes).status == 204
    assert takes.taken == [2], "nobody else holds on to it"


def test_of_a_batch_that_comes_again_nothing_is_held_meanwhile() -> None:
    """Where a later message of it is worked on, the earlier ones are given up."""
    seen, takes = RecentIds(), Takes()
    assert seen.begin(message_id(8)) == "new"
    both = HOOK.push(json_message("1"), json_message("2"))
    assert answered(receiver(seen), both, takes).status == 503
    seen.failed([message_id(8)])
    assert answered(receiver(seen), both, takes).status == 204
    assert takes.taken == [1, 2]


def test_recent_ids_are_bounded_and_the_oldest_goes_first() -> None:
    now_s = 0.0
    seen = RecentIds(max_ids=2, keep_s=10, clock=lambda: now_s)
    for one in ("a", "b", "c"):
        assert seen.begin(one) == "new"
        seen.done([one])
    assert (seen.begin("b"), seen.begin("c"), seen.begin("a")) == ("done", "done", "new")
    assert seen.begin("a") == "working"
    seen.failed(["a"])
    assert seen.begin("a") == "new"
    now_s = 10.0
    assert seen.begin("c") == "new"


class Elsewhere:
    """Ids in a place that is reached over a network: never from an event loop."""

    def __init__(self) -> None:
        self._inner = RecentIds()

    def begin(self, message_id: str) -> Any:
        self._blocks()
        return self._inner.begin(message_id)

    def done(self, message_ids: Any) -> None:
        self._blocks()
        self._inner.done(message_ids)

    def failed(self, message_ids: Any) -> None:
        self._blocks()
        self._inner.failed(message_ids)

    def _blocks(self) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()


async def test_what_blocks_is_not_called_in_the_event_loop() -> None:
    one, taken = receiver(Elsewhere()), []

    async def handler(delivery: Delivery) -> None:
        taken.append(delivery.message.message_id)
        if len(taken) == 1:
            raise DeliverLater

    request = HOOK.push(json_message("1"))
    statuses = [
        (await one.answer_async(request.body, headers_of(request), handler)).status
        for _ in range(3)
    ]
    assert (statuses, taken) == ([503, 204, 204], [message_id(7)] * 2)


async def test_a_handler_that_is_cancelled_has_taken_nothing() -> None:
    one, inside = receiver(RecentIds()), asyncio.Event()

    async def endless(delivery: Delivery) -> None:
        inside.set()
        await asyncio.Event().wait()

    request = HOOK.push(json_message("1"))
    task = asyncio.create_task(one.answer_async(request.body, headers_of(request), endless))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    takes = Takes()
    assert answered(one, request, takes).status == 204
    assert takes.taken == [1]
