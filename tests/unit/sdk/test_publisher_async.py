"""The publisher on an event loop."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from packetboat.errors import (
    BufferFull,
    ClientClosed,
    InvalidRequest,
    NotDone,
    Overloaded,
    UnknownOutcome,
)
from packetboat.publisher.aio import AsyncPublisher

from tests.unit.sdk.publisher_model import WRONG, message, problem
from tests.unit.sdk.publisher_server import PRODUCER, Server, numbered, settings


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def publisher(server: Server) -> AsyncIterator[AsyncPublisher]:
    publisher = publisher_of(server)
    yield publisher
    server.held = False
    await publisher.close()


def publisher_of(server: Server, **given: Any) -> AsyncPublisher:
    return AsyncPublisher(server.sender(), settings(**given), PRODUCER)


async def test_a_receipt_for_each_message(server: Server, publisher: AsyncPublisher) -> None:
    receipts = await asyncio.gather(*(publisher.publish("t", each) for each in numbered(500)))
    assert len({(receipt.partition, receipt.offset) for receipt in receipts}) == 500
    assert len(server.bodies()) == 500


async def test_what_is_published_in_one_turn_of_the_loop_is_few_requests(
    server: Server, publisher: AsyncPublisher
) -> None:
    await asyncio.gather(*(publisher.publish("t", each) for each in numbered(250)))
    assert len(server.requests) == 2


async def test_who_is_told_publishes_into_the_next_request(
    server: Server, publisher: AsyncPublisher
) -> None:
    async def publish_ten_times() -> None:
        for each in numbered(10):
            await publisher.publish("t", each)

    await asyncio.gather(*(publish_ten_times() for _ in range(50)))
    assert len(server.requests) == 10


async def test_errors_come_where_they_belong(publisher: AsyncPublisher) -> None:
    good, wrong = publisher.publish("t", message(b"x")), publisher.publish("t", message(WRONG))
    assert (await good).topic == "t"
    with pytest.raises(InvalidRequest):
        await wrong


async def test_it_is_tried_again_until_it_is_stored_once(server: Server) -> None:
    server.failures = [problem(429, "rate-limited"), UnknownOutcome("cut"), None]
    publisher = publisher_of(server)
    await publisher.publish("t", message(b"x"))
    assert server.bodies() == [b"x"]
    assert server.requests[1] == server.requests[2]
    await publisher.close()


async def test_at_the_deadline_it_says_why(server: Server) -> None:
    server.failures = [problem(429, "rate-limited")] * 1000
    publisher = publisher_of(server, deadline_s=0.05)
    with pytest.raises(Overloaded):
        await publisher.publish("t", message(b"x"))
    await publisher.close()


async def test_a_bug_of_a_transport_is_an_unknown_outcome(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.failures = [KeyError("bug")] * 1000  # type: ignore[list-item]
    publisher = publisher_of(server, deadline_s=0.05)
    with pytest.raises(UnknownOutcome):
        await publisher.publish("t", message(b"x"))
    await publisher.close()
    assert "a batch could not be sent" in caplog.text


async def test_an_error_nobody_awaits_is_loud(
    publisher: AsyncPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    _ = publisher.publish("t", message(WRONG))
    await publisher.flush()
    del _
    gc.collect()
    assert "exception was never retrieved" in caplog.text


async def test_a_cancelled_receipt_takes_nothing_back(
    server: Server, publisher: AsyncPublisher
) -> None:
    receipt = publisher.publish("t", message(b"x"))
    receipt.cancel()
    await publisher.flush()
    assert server.bodies() == [b"x"]


async def test_flush_waits_for_what_was_before_it(
    server: Server, publisher: AsyncPublisher
) -> None:
    server.held = True
    receipts = [publisher.publish("t", each) for each in numbered(10)]
    flushed = asyncio.create_task(publisher.flush())
    await asyncio.sleep(0.01)
    assert not flushed.done()
    server.held = False
    await flushed
    assert all(receipt.done() for receipt in receipts)
    await publisher.flush()


async def test_a_flush_ends_in_time_and_publishing_goes_on(
    server: Server, publisher: AsyncPublisher
) -> None:
    server.held = True
    receipt = publisher.publish("t", message(b"x"))
    with pytest.raises(TimeoutError, match=r"not all is published after 0\.01 s"):
        await publisher.flush(0.01)
    server.held = False
    await publisher.flush()
    assert receipt.done()


async def test_flush_does_not_linger(server: Server) -> None:
    publisher = publisher_of(server, linger_s=1000, deadline_s=5000)
    receipt = publisher.publish("t", message(b"x"))
    await publisher.flush()
    assert receipt.done()
    await publisher.close()


async def test_close_publishes_what_there_is_and_nothing_after(server: Server) -> None:
    publisher = publisher_of(server)
    receipts = [publisher.publish("t", each) for each in numbered(10)]
    await publisher.close()
    assert [receipt.exception() for receipt in receipts] == [None] * 10
    with pytest.raises(ClientClosed):
        publisher.publish("t", message(b"x"))


async def test_what_close_could_not_publish_is_told(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.held = True
    publisher = publisher_of(server)
    out = publisher.publish("t", message(b"1", "k"))
    await asyncio.sleep(0.01)
    waiting = publisher.publish("t", message(b"2", "k"))
    await publisher.close(timeout_s=0.01)
    assert isinstance(out.exception(), UnknownOutcome)
    assert isinstance(waiting.exception(), ClientClosed)
    assert "closed with 2 messages not published" in caplog.text


async def test_a_line_waits_for_a_full_buffer_and_then_it_is_full(server: Server) -> None:
    server.held = True
    publisher = publisher_of(server, max_buffered_messages=2)
    receipts = [publisher.publish("t", each) for each in numbered(4)]
    with pytest.raises(BufferFull):
        publisher.publish("t", message(b"x"))
    room = asyncio.create_task(publisher.room())
    await asyncio.sleep(0.01)
    assert not room.done()
    server.held = False
    await room
    await asyncio.gather(*receipts)
    await publisher.close()


async def test_who_asks_for_room_does_not_keep_messages_from_going_out(
    server: Server, publisher: AsyncPublisher
) -> None:
    receipts = []
    for each in numbered(2000):
        await publisher.room()
        receipts.append(publisher.publish("t", each))
    assert any(receipt.done() for receipt in receipts) or server.requests
    await asyncio.gather(*receipts)


async def test_without_a_line_a_full_buffer_raises(server: Server) -> None:
    server.held = True
    publisher = publisher_of(server, max_buffered_messages=1, overflow="raise")
    receipt = publisher.publish("t", message(b"1"))
    with pytest.raises(NotDone):
        publisher.publish("t", message(b"2"))
    server.held = False
    await receipt
    await publisher.close()


def test_the_end_of_the_loop_is_loud(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.held = True
    publisher = publisher_of(server)

    async def careless() -> None:
        publisher.publish("t", message(b"x"))
        await asyncio.sleep(0.01)

    asyncio.run(careless())
    assert "an event loop ended with 1 messages not published" in caplog.text
    caplog.clear()
    publisher.finish()
    assert not caplog.text


def test_the_end_of_the_interpreter_is_loud(caplog: pytest.LogCaptureFixture) -> None:
    publisher = publisher_of(Server(), linger_s=1000, deadline_s=5000)

    async def careless() -> None:
        publisher.publish("t", message(b"x"))

    with caplog.at_level(logging.ERROR):
        asyncio.run(careless())
        publisher.finish()
    assert "interpreter ends with 1 messages not published" in caplog.text


def test_another_loop_goes_on(server: Server) -> None:
    publisher = publisher_of(server)

    async def publish(body: bytes) -> None:
        await publisher.publish("t", message(body))

    asyncio.run(publish(b"1"))
    asyncio.run(publish(b"2"))
    assert sorted(server.bodies()) == [b"1", b"2"]
