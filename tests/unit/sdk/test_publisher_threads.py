"""The publisher of threads: receipts to wait for, a full buffer, forks."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from packetboat.calls import Producer
from packetboat.errors import BufferFull, ClientClosed, InvalidRequest, UnknownOutcome
from packetboat.publisher.pending_receipt import PendingReceipt
from packetboat.publisher.threaded import ThreadedPublisher

from tests.unit.sdk.publisher_model import WRONG, message
from tests.unit.sdk.publisher_server import Server, numbered, settings

PATIENCE_S = 60.0


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def publisher(server: Server) -> Iterator[ThreadedPublisher]:
    publisher = publisher_of(server)
    yield publisher
    server.held = False
    publisher.close()


def publisher_of(server: Server, **given: Any) -> ThreadedPublisher:
    return ThreadedPublisher(server.sender, settings(**given), Producer())


def wait_until(condition: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends_s
        time.sleep(0.001)


def publishing_threads() -> set[int | None]:
    gc.collect()
    return {t.ident for t in threading.enumerate() if t.name == "packetboat-publisher"}


def test_a_receipt_for_each_message(server: Server, publisher: ThreadedPublisher) -> None:
    receipts = [publisher.publish("t", each) for each in numbered(500)]
    places = {(receipt.result().partition, receipt.result().offset) for receipt in receipts}
    assert len(places) == len(server.bodies()) == 500
    assert all(receipt.done() and receipt.exception() is None for receipt in receipts)


def test_what_gathers_behind_a_request_is_one_request(
    server: Server, publisher: ThreadedPublisher
) -> None:
    server.held = True
    publisher.publish("t", message(b"first", "k"))
    wait_until(lambda: len(server.requests) == 1)
    receipts = [publisher.publish("t", each) for each in numbered(90, "k")]
    server.held = False
    for receipt in receipts:
        receipt.result(PATIENCE_S)
    assert len(server.requests) == 2


def test_many_threads_share_one(server: Server, publisher: ThreadedPublisher) -> None:
    before = publishing_threads()

    def publish(name: str) -> None:
        for number in range(50):
            publisher.publish("t", message(f"{name} {number}".encode(), name)).result(PATIENCE_S)

    threads = [threading.Thread(target=publish, args=[f"{n}"]) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(server.bodies())) == len(server.bodies()) == 800
    assert len(publishing_threads() - before) == 1


def test_the_thread_of_a_publisher_that_is_forgotten_ends(server: Server) -> None:
    before = publishing_threads()
    receipt = publisher_of(server).publish("t", message(b"x"))
    receipt.result(PATIENCE_S)
    assert publishing_threads() - before
    del receipt
    wait_until(lambda: not publishing_threads() - before)
    assert server.closed


def test_waiting_has_an_end(server: Server, publisher: ThreadedPublisher) -> None:
    server.held = True
    receipt = publisher.publish("t", message(b"x"))
    with pytest.raises(TimeoutError):
        receipt.result(0.01)
    with pytest.raises(TimeoutError):
        publisher.flush(0.01)
    assert not receipt.done()
    server.held = False
    publisher.flush()
    assert receipt.done()


def test_an_error_is_raised_and_given(publisher: ThreadedPublisher) -> None:
    receipt = publisher.publish("t", message(WRONG))
    with pytest.raises(InvalidRequest):
        receipt.result(PATIENCE_S)
    assert isinstance(receipt.exception(), InvalidRequest)


def test_an_error_nobody_asks_for_is_loud(
    publisher: ThreadedPublisher, caplog: pytest.LogCaptureFixture
) -> None:
    publisher.publish("t", message(WRONG))
    publisher.flush(PATIENCE_S)
    wait_until(lambda: gc.collect() >= 0 and "nobody asked" in caplog.text)


def test_callbacks(server: Server, publisher: ThreadedPublisher, caplog: Any) -> None:
    server.held = True
    receipt = publisher.publish("t", message(b"x"))
    seen: list[PendingReceipt] = []
    receipt.add_done_callback(lambda _: 1 / 0)
    receipt.add_done_callback(seen.append)
    server.held = False
    wait_until(lambda: seen == [receipt])
    assert "ZeroDivisionError" in caplog.text
    receipt.add_done_callback(seen.append)
    assert len(seen) == 2


def test_a_callback_publishes_but_does_not_wait(
    server: Server, publisher: ThreadedPublisher
) -> None:
    results: list[object] = []

    def publish_again(_: PendingReceipt) -> None:
        another = publisher.publish("t", message(b"2"))
        results.append(another)
        try:
            another.result()
        except RuntimeError as error:
            results.append(error)

    server.held = True
    publisher.publish("t", message(b"1")).add_done_callback(publish_again)
    server.held = False
    wait_until(lambda: len(results) == 2)
    assert isinstance(results[0], PendingReceipt)
    results[0].result(PATIENCE_S)


def test_a_full_buffer_makes_publish_wait(server: Server) -> None:
    server.held = True
    publisher = publisher_of(server, max_buffered_messages=2)
    receipts = [publisher.publish("t", each) for each in numbered(2)]
    blocked = threading.Thread(
        target=lambda: receipts.append(publisher.publish("t", message(b"x")))
    )
    blocked.start()
    blocked.join(0.05)
    assert blocked.is_alive()
    server.held = False
    blocked.join(PATIENCE_S)
    assert receipts[2].result(PATIENCE_S)
    publisher.close()


def test_a_buffer_that_stays_full_refuses_in_the_end(server: Server) -> None:
    server.held = True
    publisher = publisher_of(server, max_buffered_messages=1, deadline_s=0.1)
    first = publisher.publish("t", message(b"1"))
    for _ in range(50):
        # The first leaves the buffer at its own deadline, maybe before the second gives up.
        with contextlib.suppress(BufferFull):
            publisher.publish("t", message(b"2"))
            continue
        break
    else:
        pytest.fail("never refused")
    assert isinstance(first.exception(PATIENCE_S), UnknownOutcome)
    publisher.close(timeout_s=0)


def test_close_publishes_what_there_is_and_nothing_after(server: Server) -> None:
    publisher = publisher_of(server)
    receipts = [publisher.publish("t", each) for each in numbered(10)]
    publisher.close()
    assert [receipt.exception() for receipt in receipts] == [None] * 10
    assert server.closed
    with pytest.raises(ClientClosed):
        publisher.publish("t", message(b"x"))
    publisher.close()


def test_closing_ends_the_wait_for_room(server: Server) -> None:
    server.held = True
    publisher = publisher_of(server, max_buffered_messages=1)
    first = publisher.publish("t", message(b"1"))
    errors: list[BaseException] = []

    def publish() -> None:
        try:
            publisher.publish("t", message(b"2"))
        except ClientClosed as error:
            errors.append(error)

    blocked = threading.Thread(target=publish)
    blocked.start()
    blocked.join(0.05)
    publisher.close(timeout_s=0.01)
    blocked.join(PATIENCE_S)
    assert len(errors) == 1
    assert isinstance(first.exception(), UnknownOutcome)


def test_what_close_could_not_publish_is_told(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.held = True
    publisher = publisher_of(server)
    out = publisher.publish("t", message(b"1", "k"))
    wait_until(lambda: len(server.requests) == 1)
    waiting = publisher.publish("t", message(b"2", "k"))
    publisher.close(timeout_s=0.01)
    assert isinstance(out.exception(), UnknownOutcome)
    assert isinstance(waiting.exception(), ClientClosed)
    assert "closed with 2 messages not published" in caplog.text


def in_a_child(body: Callable[[], bool]) -> bool:
    """Run `body` in a fork of this process; return its result."""
    child = os.fork()
    if child == 0:
        good = False
        try:
            good = body()
        finally:
            os._exit(0 if good else 1)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_a_child_publishes_its_own_messages_under_another_name(
    server: Server, publisher: ThreadedPublisher
) -> None:
    server.held = True
    pending = publisher.publish("t", message(b"parent"))
    wait_until(lambda: len(server.requests) == 1)

    def child() -> bool:
        told = isinstance(pending.exception(0), UnknownOutcome)
        server.held = False
        receipt = publisher.publish("t", message(b"child")).result(PATIENCE_S)
        names = {request.headers["Packetboat-Producer"] for request in server.requests}
        return told and receipt.topic == "t" and len(names) == 2 and server.bodies() == [b"child"]

    assert in_a_child(child)
    server.held = False
    pending.result(PATIENCE_S)
    publisher.publish("t", message(b"parent again")).result(PATIENCE_S)
    assert sorted(server.bodies()) == [b"parent", b"parent again"]
