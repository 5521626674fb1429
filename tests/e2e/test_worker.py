"""Workers on a real installation."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from packetboat.aio.client import AsyncClient
from packetboat.errors import NotFound
from packetboat.models import Message
from packetboat.sync.client import Client
from packetboat.worker import Context, Emit, Reject, Worker, WorkerApp

from tests.e2e.installation import Installation

PATIENCE_S = 60.0


class Flow:
    """A topic of one partition with a subscription of the same name."""

    def __init__(self, running: Installation, **subscription: Any) -> None:
        self._http, self._url = running.session(), running.url
        self.name = f"worker-{uuid.uuid4().hex[:8]}"
        self.post("/topics", {"name": self.name, "partitions": 1})
        made = {"name": self.name, "start": "earliest", **subscription}
        self.post(f"/topics/{self.name}/subscriptions", made)

    def post(self, path: str, body: object) -> Any:
        answer = self._http.post(self._url + path, json=body, timeout=30)
        answer.raise_for_status()
        return answer.json()

    def publish(self, *bodies: Any, key: str | None = None) -> None:
        messages = [{"data": body, "key": key} for body in bodies]
        self.post(f"/topics/{self.name}/messages:batch", {"messages": messages})

    def backlog(self) -> dict[str, Any]:
        answer = self._http.get(f"{self._url}/subscriptions/{self.name}/backlog", timeout=30)
        shown: dict[str, Any] = answer.json()
        return shown

    def messages(self, topic: str) -> list[Any]:
        """Return all messages of a topic of one partition."""
        path = f"{self._url}/topics/{topic}/partitions/0/messages?max_messages=1000"
        return [each["data"] for each in self._http.get(path, timeout=30).json()["messages"]]


@pytest.fixture
def client(running: Installation) -> Client:
    return Client(running.url, running.token)


def until(done: Callable[[], Any], what: str) -> Any:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        if found := done():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not after {PATIENCE_S} s")


class Thread:
    """A worker that runs in a thread until the block ends."""

    def __init__(self, worker: Worker | WorkerApp, *arguments: Any, **more: Any) -> None:
        self._worker = worker
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(arguments, more))

    def _run(self, arguments: Any, more: Any) -> None:
        try:
            self._worker.run(*arguments, **more)
        except BaseException as error:
            self._error = error

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._worker.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("source", ["pull", "stream"])
def test_all_is_handled_and_acked(running: Installation, client: Client, source: Any) -> None:
    flow = Flow(running)
    flow.publish(*range(500))
    seen: Counter[int] = Counter()

    async def handle(message: Message) -> None:
        seen[message.json()] += 1

    with client, Thread(Worker(client, flow.name, source=source), handle):
        until(lambda: len(seen) == 500, "all are handled")
    backlog = flow.backlog()
    assert (backlog["leased"], backlog["messages"]) == (0, 0)
    assert set(seen.values()) == {1}


def test_a_failure_comes_again_and_a_rejection_is_a_dead_letter(
    running: Installation, client: Client
) -> None:
    letters = Flow(running)
    retry = {"min_backoff_seconds": 0.01, "max_backoff_seconds": 0.05}
    flow = Flow(running, retry=retry, dead_letter_topic=letters.name)
    flow.publish("fails once", "no good")
    done: list[int] = []

    def handle(message: Message) -> None:
        if message.text == "no good":
            raise Reject("not an order")
        if message.attempt == 1:
            raise RuntimeError("the disk is full")
        done.append(message.attempt)

    with client, Thread(Worker(client, flow.name), handle):
        until(lambda: done and letters.messages(letters.name), "both are settled")
    assert done == [2]
    assert letters.messages(letters.name) == ["no good"]


def test_a_long_handler_keeps_its_lease(running: Installation, client: Client) -> None:
    flow = Flow(running, ack_deadline_seconds=5, delivery="exactly_once")
    flow.publish("long")
    attempts: list[int] = []

    async def handle(message: Message, context: Context) -> None:
        attempts.append(message.attempt)
        await asyncio.sleep(6.0)
        assert not context.lease_lost

    with client, Thread(Worker(client, flow.name), handle):
        until(lambda: attempts and flow.backlog()["leased"] == 0, "it is acked")
    assert attempts == [1]


def test_outputs_are_published_with_the_ack(running: Installation, client: Client) -> None:
    flow, bills = Flow(running), Flow(running)
    flow.publish(*range(20))

    def handle(message: Message) -> Any:
        yield Emit(bills.name, {"bill": message.json()})
        yield Emit(bills.name, {"copy": message.json()})

    with client, Thread(Worker(client, flow.name), handle):
        until(lambda: len(bills.messages(bills.name)) >= 40, "all is published")
    found = Counter(repr(each) for each in bills.messages(bills.name))
    assert set(found.values()) == {1}
    assert flow.backlog()["leased"] == 0


def test_an_app_has_many_and_a_missing_one_ends_it(running: Installation, client: Client) -> None:
    flow = Flow(running)
    app = WorkerApp(client)
    app.subscription(flow.name)(lambda message: None)
    app.subscription("no-such-subscription")(lambda message: None)
    with client, pytest.raises(NotFound, match="no-such-subscription"):
        app.run()


async def test_an_async_client_is_used_as_it_is(running: Installation) -> None:
    flow = Flow(running)
    flow.publish(1, 2, 3)
    async with AsyncClient(running.url, running.token) as client:
        worker = Worker(client, flow.name, batch_size=3, batch_wait_s=0.2)
        seen: list[Any] = []

        async def handle(batch: list[Message]) -> None:
            seen.extend(message.json() for message in batch)
            if len(seen) == 3:
                worker.stop()

        async with asyncio.timeout(PATIENCE_S):
            await worker.arun(handle)
        assert sorted(seen) == [1, 2, 3]
        assert await client.pull(flow.name) == []


PROGRAM = """
    import os, sys, time
    from packetboat.sync.client import Client
    from packetboat.worker import Worker

    def handle(message):
        os.write(1, f"begun {message.text}\\n".encode())  # A line at once: threads take turns.
        time.sleep(0.5)
        os.write(1, f"done {message.text}\\n".encode())

    with Client() as client:
        Worker(client, sys.argv[1], concurrency=2, prefetch=2).run(handle)
    print("clean", flush=True)
"""


def started(running: Installation, flow: Flow, path: Path) -> subprocess.Popen[bytes]:
    program = path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    environment = os.environ | {"PACKETBOAT_URL": running.url, "PACKETBOAT_TOKEN": running.token}
    with (path / "output").open("wb") as output:
        command = [sys.executable, str(program), flow.name]
        return subprocess.Popen(command, env=environment, stdout=output, stderr=output)


def test_sigterm_ends_it_gently(running: Installation, tmp_path: Path) -> None:
    flow = Flow(running)
    flow.publish(*[f"m{number}" for number in range(8)])
    process, output = started(running, flow, tmp_path), tmp_path / "output"
    until(lambda: "begun" in output.read_text(), "a handler begins")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0, output.read_text()
    lines = output.read_text().splitlines()
    assert lines[-1] == "clean"
    begun = {line.split()[1] for line in lines if line.startswith("begun")}
    done = {line.split()[1] for line in lines if line.startswith("done")}
    assert begun == done
    left = flow.backlog()
    assert (left["leased"], left["messages"]) == (0, 8 - len(done))
