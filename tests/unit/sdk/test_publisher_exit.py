"""A program that ends has published, or says what it has not."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import multiprocessing, sys, threading, time
from packetboat.calls import Producer
from packetboat.publisher.threaded import ThreadedPublisher
from tests.unit.sdk.publisher_model import message
from tests.unit.sdk.publisher_server import Server, settings

class Loud(Server):
    async def send(self, request):
        import asyncio
        await asyncio.get_running_loop().getaddrinfo("localhost", 80)
        response = await super().send(request)
        print("stored", *(body.decode() for body in self.bodies()), flush=True)
        return response

server = Loud()
publisher = ThreadedPublisher(server.sender, settings(close_timeout_s={timeout_s}), Producer())
server.held = {held}

def publish(text):
    publisher.publish("t", message(text.encode()))

{body}
"""


def run(
    body: str, *, held: bool = False, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(body=body, held=held, timeout_s=timeout_s)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=False
    )


@pytest.mark.parametrize(
    "body",
    [
        "publish('1')",
        "publish('1'); sys.exit(0)",
        # Python 3.12.0 and 3.12.1 start no thread, such as ours, once the main thread has ended.
        "publish('1'); threading.Thread(target=lambda: (time.sleep(0.1), publish('2'))).start()",
    ],
    ids=["end", "exit", "thread"],
)
def test_the_end_of_the_interpreter_publishes_what_there_is(body: str) -> None:
    done = run(body)
    stored = set(done.stdout.splitlines()[-1].split()) if done.stdout else set()
    assert stored == {"stored", "1", *("2" if "'2'" in body else "")}, done.stderr
    assert done.returncode == 0


def test_an_exception_does_not_lose_what_was_published_before() -> None:
    done = run("publish('1'); raise ValueError('mine')")
    assert done.stdout == "stored 1\n"
    assert "mine" in done.stderr


def test_a_forked_child_of_multiprocessing_publishes_before_it_ends() -> None:
    done = run(
        "child = multiprocessing.get_context('fork').Process(target=publish, args=['1'])\n"
        "child.start(); child.join()"
    )
    assert done.stdout == "stored 1\n", done.stderr


def test_what_could_not_be_published_is_named_and_the_program_ends() -> None:
    done = run("publish('1'); publish('2')", held=True, timeout_s=0.2)
    assert "the interpreter ends with 2 messages not published" in done.stderr
    assert done.stdout == ""
    assert done.returncode == 0
