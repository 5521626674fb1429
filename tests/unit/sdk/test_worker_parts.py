"""The parts of a worker, each alone."""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from packetboat.aio.client import AsyncClient
from packetboat.errors import NotAuthorized, NotFound, ServerError, UnknownOutcome
from packetboat.models import Message
from packetboat.sync.client import Client
from packetboat.worker import Worker, WorkerApp, WorkerSettings
from packetboat.worker.calls import consumer_name, read_messages
from packetboat.worker.handlers import decoder_of, takes_context
from packetboat.worker.pace import Latency, TokenBucket
from packetboat.worker.runner import together
from packetboat.worker.running import told_of_signals
from packetboat.worker.threads import Threads


def message(data: Any = None, **more: Any) -> Message:
    content = {"data": msgspec.Raw(msgspec.json.encode(data)), "content_type": "application/json"}
    return Message(
        message_id="m",
        ack_id="a",
        publish_time=datetime.now(UTC),
        partition=0,
        offset=0,
        **(content | more),
    )


def test_a_bucket_gives_a_second_at_once_and_then_its_rate() -> None:
    bucket = TokenBucket(10, 100.0)
    assert [bucket.take(1, 100.0) for _ in range(10)] == [0.0] * 10
    assert bucket.take(1, 100.0) == pytest.approx(0.1)
    assert bucket.take(1, 100.0) == pytest.approx(0.2)
    assert bucket.take(1, 100.4) == 0.0


def test_a_slow_rate_gives_one_at_once() -> None:
    bucket = TokenBucket(0.5, 0.0)
    assert bucket.take(1, 0.0) == 0.0
    assert bucket.take(1, 0.0) == pytest.approx(2.0)


def test_the_99th_percentile_of_what_was_seen() -> None:
    latency = Latency()
    assert (latency.mean_s, latency.p99_s()) == (None, 0.0)
    for number in range(100):
        latency.add(float(number))
    assert latency.p99_s() == 99.0
    assert latency.mean_s is not None
    assert 80 < latency.mean_s < 99


class Body(msgspec.Struct):
    number: int


class Pydantic:
    """The part of a pydantic model that the worker uses."""

    @classmethod
    def model_validate_json(cls, data: bytes) -> str:
        return f"model of {data.decode()}"


@pytest.mark.parametrize(
    ("body", "data", "expected"),
    [
        (Body, {"number": 1}, Body(1)),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (str, {"a": 1}, '{"a":1}'),
        (bytes, {"a": 1}, b'{"a":1}'),
        (Pydantic, 7, "model of 7"),
    ],
    ids=["struct", "dict", "str", "bytes", "model"],
)
def test_bodies_by_type(body: Any, data: Any, expected: Any) -> None:
    assert decoder_of(body)(message(data)) == expected


def with_default(given: Any, times: int = 2) -> None: ...
def with_context(given: Any, context: Any = None) -> None: ...
def with_two(given: Any, other: Any) -> None: ...


class Callable_:  # noqa: N801
    def __call__(self, given: Any, context: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (with_default, False),
        (with_context, True),
        (with_two, True),
        (Callable_(), True),
        (functools.partial(with_two, 1), False),
        ([].append, False),
        (print, False),
    ],
    ids=["default", "named", "two", "callable", "partial", "append", "print"],
)
def test_who_gets_the_context(handler: Any, expected: bool) -> None:
    assert takes_context(handler) is expected


@pytest.mark.parametrize(
    "wrong", [{"concurrency": 0}, {"prefetch": -1}, {"handler_timeout_s": 0}, {"max_attempts": 0}]
)
def test_settings_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        WorkerSettings(**wrong)


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


LINE = msgspec.json.encode({"message": message(1)}) + b"\n"
HEARTBEAT = b'{"heartbeat":{"outstanding_messages":0}}\n'
OVER = b'{"end":{"reason":"max_seconds","problem":null}}\n'


async def read(*parts: bytes) -> list[int]:
    return [len(batch) async for batch in read_messages(chunks(*parts))]


async def test_a_stream_gives_together_what_came_together() -> None:
    assert await read(HEARTBEAT, LINE + LINE, LINE[:9], LINE[9:], OVER) == [0, 2, 0, 1]


async def test_the_last_messages_may_come_with_the_end() -> None:
    assert await read(LINE + OVER) == [1]


async def test_a_stream_that_is_cut_off_says_so() -> None:
    with pytest.raises(UnknownOutcome):
        await read(LINE)


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (401, NotAuthorized)])
async def test_a_stream_that_ends_with_a_problem_raises_it(status: int, kind: type) -> None:
    end = {"end": {"reason": "problem", "problem": {"status": status, "type": "x"}}}
    with pytest.raises(kind):
        await read(msgspec.json.encode(end) + b"\n")


async def test_lines_that_are_none() -> None:
    with pytest.raises(ServerError):
        await read(b"<html>\n")


def test_a_consumers_name_is_printable() -> None:
    name = consumer_name()
    assert name.isascii()
    assert 1 <= len(name) <= 128


async def test_threads_are_begun_as_they_are_needed() -> None:
    threads = Threads(3)
    assert await threads.submit(lambda: 1) == await threads.submit(lambda: 1) == 1
    names = {await threads.submit(lambda: threading.current_thread().name) for _ in range(5)}
    assert len(names) == 1
    with pytest.raises(KeyError):
        await threads.submit({}.__getitem__, "x")
    with pytest.raises(RuntimeError, match="SystemExit"):
        await threads.submit(exit, 1)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.submit(next, iter(()))
    threads.close()


async def test_signals_are_told_and_put_back() -> None:
    told = asyncio.Event()
    before = signal.getsignal(signal.SIGTERM)
    with told_of_signals(told.set, True):
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await told.wait()
    assert signal.getsignal(signal.SIGTERM) is before


async def test_one_that_fails_stops_the_others_gently() -> None:
    stop = asyncio.Event()
    ended: list[str] = []

    async def fails() -> None:
        raise KeyError("first")

    async def works() -> None:
        await stop.wait()
        ended.append("gently")

    with pytest.raises(KeyError, match="first"):
        await together([works(), fails()], stop.set)
    assert ended == ["gently"]


def test_an_app_has_one_handler_for_each_subscription() -> None:
    app = WorkerApp(Client("http://127.0.0.1:1", "t"))
    with pytest.raises(ValueError, match="nothing to do"):
        app.run()
    assert app.subscription("orders", body=str)(with_two) is with_two
    with pytest.raises(ValueError, match="orders has a handler"):
        app.subscription("orders")


async def test_a_worker_runs_once_at_a_time_and_may_be_stopped_before() -> None:
    async with AsyncClient("http://127.0.0.1:1", "t") as client:
        worker = Worker(client, "orders")
        running = asyncio.create_task(worker.arun(print))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="runs already"):
            await worker.arun(print)
        worker.stop()
        async with asyncio.timeout(30):
            await running
        worker.stop()
        async with asyncio.timeout(30):
            await worker.arun(print)
