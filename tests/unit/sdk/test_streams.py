"""Streams: lines out of chunks, and one answer after the other."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packetboat import (
    Client,
    ConnectionFailed,
    NotAuthorized,
    NotFound,
    PacketboatError,
    ServerError,
    Unavailable,
    UnknownOutcome,
)
from packetboat.aio.resources.delivery import AsyncDelivery
from packetboat.calls import StreamCall, streams
from packetboat.calls.streams import Reopening, Splitter
from packetboat.sync.resources.audit import Audit
from packetboat.sync.resources.delivery import Delivery
from packetboat.sync.resources.messages import Messages
from packetboat.sync.resources.subscriptions import Subscriptions
from packetboat.transport import Request

from tests.unit.sdk.sdk_support import Script, ok, problem

LATER_S = 100.0


@given(st.lists(st.binary().map(lambda b: b.replace(b"\n", b""))), st.integers(1, 9))
def test_lines_do_not_depend_on_chunks(lines: list[bytes], size: int) -> None:
    text = b"".join(line + b"\n" for line in lines)
    splitter = Splitter()
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines


def test_a_line_has_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_LINE_BYTES", 5)
    splitter = Splitter()
    assert list(splitter.feed(b"12345\n12345")) == [b"12345"]
    with pytest.raises(ServerError, match="more than 5 bytes"):
        list(splitter.feed(b"6"))


def reopening(**options: Any) -> Reopening:
    def call_of(left_s: float | None) -> StreamCall:
        return StreamCall(Request("GET", f"/{left_s}"))

    told = {"max_seconds": None, "reopen_for_s": None} | options
    return Reopening(call_of, 0.0, **told)


def opened(**options: Any) -> Reopening:
    made = reopening(**options)
    assert made.call(0.0) is not None
    made.opened(0.0)
    return made


def end(reason: str, status: int | None = None) -> bytes:
    problem = None if status is None else {"type": "p/x", "title": "t", "status": status}
    return json.dumps({"end": {"reason": reason, "problem": problem}}).encode()


def test_what_cannot_be_opened_at_first_is_raised() -> None:
    with pytest.raises(ConnectionFailed):
        reopening().pause_s(ConnectionFailed("x"), 0.0)


@pytest.mark.parametrize(
    "error", [None, UnknownOutcome("x"), ConnectionFailed("x")], ids=["end", "cut", "gone"]
)
def test_what_was_cut_off_is_opened_again_for_ever(error: PacketboatError | None) -> None:
    stream = opened()
    for now_s in range(0, 10**6, 10**5):
        assert 0 <= stream.pause_s(error, now_s) <= 2
        assert stream.call(now_s) is not None


def test_a_server_that_stops_is_followed_by_another() -> None:
    stream = opened()
    assert stream.line(end("draining")).message is None
    assert not stream.over
    assert stream.pause_s(None, 0.0) <= 0.05
    assert stream.call(0.0) is not None


def test_it_is_tried_for_as_long_as_it_is_told_since_the_last_line() -> None:
    stream = opened(reopen_for_s=10.0)
    stream.pause_s(None, 0.0)
    stream.line(b'{"heartbeat":{}}')
    stream.pause_s(None, LATER_S)
    with pytest.raises(UnknownOutcome, match="cut off"):
        stream.pause_s(None, LATER_S + 10)


def test_a_token_that_expired_is_followed_by_the_next_at_once() -> None:
    stream = opened()
    with pytest.raises(NotAuthorized) as caught:
        stream.line(end("problem", 401))
    assert stream.pause_s(caught.value, LATER_S) == 0


def test_an_access_that_is_over_is_raised() -> None:
    stream = opened()
    with pytest.raises(NotAuthorized) as forbidden:
        stream.line(end("problem", 403))
    with pytest.raises(NotAuthorized):
        stream.pause_s(forbidden.value, LATER_S)


def test_a_token_that_is_refused_soon_or_before_a_line_is_raised() -> None:
    refused = NotAuthorized(streams.Problem(status=401))
    with pytest.raises(NotAuthorized):
        opened().pause_s(refused, 0.5)
    stream = opened()
    stream.call(LATER_S)
    with pytest.raises(NotAuthorized):
        stream.pause_s(refused, LATER_S + 5)


def test_problems_that_pass_and_that_do_not() -> None:
    stream = opened()
    with pytest.raises(Unavailable) as busy:
        stream.line(end("problem", 503))
    assert stream.pause_s(busy.value, 0.0) <= 2
    with pytest.raises(NotFound) as gone:
        stream.line(end("problem", 404))
    with pytest.raises(NotFound):
        stream.pause_s(gone.value, 0.0)


def test_the_time_that_is_asked_for_is_that_of_all_answers_together() -> None:
    stream = reopening(max_seconds=10.0)
    first, second = stream.call(0.0), stream.call(4.0)
    assert first is not None
    assert second is not None
    assert (first.request.path, second.request.path) == ("/10.0", "/6.0")
    assert stream.call(10.0) is None
    stream.line(end("max_seconds"))
    assert stream.over


def test_lines_that_are_not_known_are_passed_over_and_others_are_errors() -> None:
    stream = opened()
    assert stream.line(b'{"news":{"a":1}}').message is None
    with pytest.raises(ServerError, match="unexpected line"):
        stream.line(b'{"message":{}}')
    with pytest.raises(ServerError, match="unexpected line"):
        stream.line(b"<html>")


class Answer:
    """Chunks, and what ends them."""

    status, headers = 200, {}

    def __init__(self, *parts: bytes | PacketboatError) -> None:
        self._parts = parts

    def chunks(self) -> Iterator[bytes]:
        for part in self._parts:
            if isinstance(part, PacketboatError):
                raise part
            yield part


class AsyncAnswer:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._answer.chunks():
            yield chunk


class Answers:
    """A sender that opens them in turn."""

    def __init__(self, *answers: Answer | PacketboatError) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []
        self.timeouts: list[float | None] = []
        self.open = 0

    @contextmanager
    def stream(self, call: StreamCall, timeout_s: float | None = None) -> Iterator[Answer]:
        self.requests.append(call.request)
        self.timeouts.append(timeout_s)
        answer = self._answers.pop(0)
        if isinstance(answer, PacketboatError):
            raise answer
        self.open += 1
        try:
            yield answer
        finally:
            self.open -= 1


class AsyncAnswers(Answers):
    @asynccontextmanager
    async def stream(  # type: ignore[override]
        self, call: StreamCall, timeout_s: float | None = None
    ) -> AsyncIterator[AsyncAnswer]:
        with super().stream(call, timeout_s) as answer:
            yield AsyncAnswer(answer)


def message(number: int) -> bytes:
    fields = {
        "message_id": f"m{number}",
        "ack_id": f"a{number}",
        "publish_time": "2026-01-31T23:59:59Z",
        "partition": 0,
        "offset": number,
        "data": number,
    }
    return json.dumps({"message": fields}).encode() + b"\n"


BEAT = b'{"heartbeat":{"time":"2026-01-31T23:59:59Z"}}\n'
GONE = end("problem", 404) + b"\n"


def script() -> list[Answer | PacketboatError]:
    """Return a cut in a line, a server that stops, an outage, and a subscription that is gone."""
    return [
        Answer(BEAT + message(1)[:20], message(1)[20:] + message(2), UnknownOutcome("cut")),
        Answer(BEAT, message(3)[:9]),
        ConnectionFailed("away"),
        Answer(BEAT, message(3), end("draining") + b"\n"),
        Answer(BEAT, message(4), GONE),
    ]


def test_a_stream_is_one_over_many_answers() -> None:
    sender = Answers(*script())
    stream = Delivery(sender).stream("s", consumer="me")  # type: ignore[arg-type]
    seen = [next(stream).message_id for _ in range(4)]
    with pytest.raises(NotFound):
        next(stream)
    assert seen == ["m1", "m2", "m3", "m4"]
    assert {each.path for each in sender.requests} == {
        "/subscriptions/s/messages:stream?consumer=me&heartbeat_seconds=10.0"
    }
    assert len(sender.requests) == 5


async def test_an_asyncio_stream_is_the_same() -> None:
    sender = AsyncAnswers(*script())
    stream = AsyncDelivery(sender).stream("s")  # type: ignore[arg-type]
    seen = [(await anext(stream)).message_id for _ in range(4)]
    with pytest.raises(NotFound):
        await anext(stream)
    assert seen == ["m1", "m2", "m3", "m4"]


async def test_a_stream_that_is_closed_closes_its_answer() -> None:
    sender = AsyncAnswers(Answer(BEAT, message(1), message(2)))
    stream = AsyncDelivery(sender).stream("s")  # type: ignore[arg-type]
    assert (await anext(stream)).message_id == "m1"
    assert sender.open == 1
    await stream.aclose()
    assert sender.open == 0


def test_the_silence_that_is_borne_is_more_than_a_heartbeat() -> None:
    sender = Answers(Answer(BEAT, GONE))
    with pytest.raises(NotFound):
        list(Delivery(sender).stream("s", heartbeat_seconds=60))  # type: ignore[arg-type]
    assert sender.requests[0].timeout_s == 80


def test_each_opening_of_a_stream_has_the_timeout_of_the_call() -> None:
    sender = Answers(*script())
    with pytest.raises(NotFound):
        list(Delivery(sender).stream("s", timeout_s=3))  # type: ignore[arg-type]
    assert sender.timeouts == [3] * 5


ONCE: dict[str, Callable[[Any], Iterable[object]]] = {
    "backlogs": lambda sender: Subscriptions(sender).backlog_stream("s", timeout_s=3),
    "backlog": lambda sender: Subscriptions(sender).follow_backlog("s", timeout_s=3),
    "arrow": lambda sender: Messages(sender).replay_arrow("t", 0, timeout_s=3),
    "audit": lambda sender: Audit(sender).export(timeout_s=3),
}


@pytest.mark.parametrize("which", ONCE)
def test_other_streams_have_it_too(which: str) -> None:
    sender = Answers(UnknownOutcome("no answer"))
    with pytest.raises(UnknownOutcome):
        list(ONCE[which](sender))
    assert sender.timeouts == [3]


def test_backlogs_end_with_their_subscription() -> None:
    time = '"time":"2026-01-31T23:59:59Z"'
    backlog = b'{"backlog":{"subscription":"s","messages":2,%s}}\n' % time.encode()
    removed = b'{"removed":{"subscription":"s",%s}}\n' % time.encode()
    sender = Answers(Answer(BEAT, backlog, removed, GONE), Answer(BEAT, GONE))
    found = list(Subscriptions(sender).follow_backlog("s"))  # type: ignore[arg-type]
    assert [(each.messages, each.removed) for each in found] == [(2, False), (0, True)]
    with pytest.raises(NotFound):
        list(Subscriptions(sender).follow_backlog("s"))  # type: ignore[arg-type]


def test_a_replay_that_follows_asks_for_no_longer_wait_than_its_timeout() -> None:
    page = ok({"messages": [], "first_offset": 0, "end_offset": 5, "next_offset": 5})
    transport = Script(page)
    with Client(transport=transport) as client:
        assert list(client.messages.replay("t", 0, follow=True, end_offset=5, timeout_s=8)) == []
    (request,) = transport.requests
    assert "wait_seconds=4.0" in request.path
    assert 7 < request.timeout_s <= 8


def test_a_reading_of_history_gives_each_of_its_requests_the_timeout() -> None:
    transport = Script(problem(404, "topic-not-found"))
    with Client(transport=transport) as client, pytest.raises(NotFound):
        next(client.read("t", timeout_s=8))
    (request,) = transport.requests
    assert 7 < request.timeout_s <= 8
