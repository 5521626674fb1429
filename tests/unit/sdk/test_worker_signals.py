"""SIGTERM and SIGINT stop a worker gently, whichever way it runs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from packetboat.worker.running import told_of_signals

TERMINATED = """
import asyncio, json, os, signal
from packetboat import AsyncClient, Worker
from packetboat.transport import Response

# A shell has what it starts in the background ignore SIGINT, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
MESSAGE = {"message_id": "m", "ack_id": "a", "partition": 0, "offset": 0, "data": 1,
           "publish_time": "2026-01-01T00:00:00Z"}
LEASE = {"name": "orders", "topic": "t", "type": "pull", "ack_deadline_seconds": 30,
         "delivery": "at_least_once", "retry": {}, "start": "latest",
         "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}


class Server:
    given = False

    async def send(self, request):
        if request.path.endswith("/ack"):
            print("acked", flush=True)
            return Response(200, {}, b'{"acked":1,"results":[]}')
        if request.path.endswith("/subscriptions/orders"):
            return Response(200, {}, json.dumps(LEASE).encode())
        messages, self.given = [] if self.given else [MESSAGE], True
        if not messages:
            await asyncio.sleep(60)
        return Response(200, {}, json.dumps({"messages": messages}).encode())

    async def close(self):
        pass


async def handle(message):
    os.kill(os.getpid(), signal.NUMBER)
    for _ in range(10):
        await asyncio.sleep(0)
    print("handled", flush=True)


async def main():
    async with AsyncClient(transport=Server()) as client:
        await Worker(client, "orders").arun(handle)
    print("ended", flush=True)


asyncio.run(main())
"""


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_arun_drains_as_run_does(number: str) -> None:
    """The signal comes in the middle of a handler, which ends; then its ack goes out."""
    program = TERMINATED.replace("NUMBER", number)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.returncode) == (["handled", "acked", "ended"], 0), done.stderr


@contextmanager
def handled_by(handler: Any) -> Iterator[None]:
    """Handle SIGTERM with `handler`, as a web server does that runs a worker beside it."""
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_a_program_keeps_its_own_handler_unless_the_worker_is_told_to_take_it() -> None:
    seen: list[str] = []
    told = asyncio.Event()
    with handled_by(lambda *_: seen.append("program")):
        with told_of_signals(told.set, None):
            signal.raise_signal(signal.SIGTERM)
        assert seen == ["program"]
        with told_of_signals(told.set, False):
            signal.raise_signal(signal.SIGTERM)
        assert seen == ["program", "program"]
        with told_of_signals(told.set, True):
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                await told.wait()
        assert len(seen) == 2


async def test_all_workers_of_a_loop_are_told_and_the_last_puts_back() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    with handled_by(signal.SIG_DFL):
        with told_of_signals(first.set, None):
            with told_of_signals(second.set, None):
                signal.raise_signal(signal.SIGTERM)
                async with asyncio.timeout(30):
                    await asyncio.gather(first.wait(), second.wait())
            first.clear()
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                await first.wait()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
