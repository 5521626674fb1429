"""One client in several processes, threads and event loops."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from packetboat import AsyncClient, Client, ClientClosed, Options, PacketboatError, Tls
from packetboat.calls.publishing import Producer

from tests.unit.sdk.certificates import Authority
from tests.unit.sdk.raw_server import OK, PATIENCE_S, Peer, RawServer, answering, get
from tests.unit.sdk.test_connections import silent

FORKS = """
import asyncio, os, sys
from packetboat import Client, AsyncClient, Options, Tls
from packetboat.calls import Call
from packetboat.transport import Request

url, ca_file = sys.argv[1], sys.argv[2] or None
options = Options(urls=(url,), tls=Tls(ca_file=ca_file))

def call(path):
    return Call(Request("GET", path), bytes)
"""
SYNC = """
client = Client(options=options)
client._sender.send(call("/parent"))
told, tell = os.pipe()
child = os.fork()
if child == 0:
    client._sender.send(call("/child"))
    client._sender.send(call("/child"))
    client.close()
    os.write(tell, b"x")
    sys.exit(0)
os.read(told, 1)
client._sender.send(call("/parent"))
assert os.waitpid(child, 0)[1] == 0
client._sender.send(call("/parent"))
client.close()
"""
ASYNC = """
client = AsyncClient(options=options)

async def in_the_child():
    await client._sender.send(call("/child"))
    await client._sender.send(call("/child"))
    await client.close()

async def main():
    await client._sender.send(call("/parent"))
    child = os.fork()
    if child == 0:
        asyncio.run(in_the_child())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    await client._sender.send(call("/parent"))
    await client.close()

asyncio.run(main())
"""


class Recording:
    """A record of the connection by which each request came."""

    def __init__(self) -> None:
        self.by_path: dict[str, list[int]] = {}

    async def serve(self, peer: Peer) -> None:
        while await peer.request():
            self.by_path.setdefault(peer.head.split()[1], []).append(peer.number)
            await peer.write(OK)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("program", [SYNC, ASYNC], ids=["sync", "async"])
def test_a_child_has_connections_of_its_own(program: str, tls: bool, tmp_path: Path) -> None:
    """The use and the end of these connections does not disturb those of the parent."""
    recording = Recording()
    authority = Authority(tmp_path)
    with RawServer(recording.serve, authority.server() if tls else None) as server:
        arguments = [server.url, str(authority.file) if tls else ""]
        run(FORKS + program, *arguments)
    assert set(recording.by_path["/parent"]) == {1}
    assert set(recording.by_path["/child"]) == {2}


CHILD_LIVES_ON = """
client = Client(options=options)
client._sender.send(call("/parent"))
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
client.close()
"""
ASYNC_CHILD_LIVES_ON = """
client = AsyncClient(options=options)

async def main():
    await client._sender.send(call("/parent"))
    if os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    await client.close()

asyncio.run(main())
"""


UVLOOP_CHILD_LIVES_ON = ASYNC_CHILD_LIVES_ON.replace("asyncio.run", "__import__('uvloop').run")
"""The sockets of uvloop have a `detach` that always raises."""


@pytest.mark.parametrize(
    "program",
    [CHILD_LIVES_ON, ASYNC_CHILD_LIVES_ON, UVLOOP_CHILD_LIVES_ON],
    ids=["sync", "async", "uvloop"],
)
def test_a_child_does_not_keep_its_parents_connections_open(program: str) -> None:
    """The server hears of the parent's end, though the child lives on."""
    closed = threading.Event()

    async def serve(peer: Peer) -> None:
        await answering(peer)
        closed.set()

    with RawServer(serve) as server:
        command = [sys.executable, "-c", FORKS + program, server.url, ""]
        child = subprocess.Popen(command, stdin=subprocess.PIPE)
        try:
            assert child.wait(PATIENCE_S) == 0
            assert closed.wait(PATIENCE_S / 2)
        finally:
            child.communicate()


FORK_WITH_THREADS = "ignore:This process:DeprecationWarning"
"""Python says it since 3.12, of the thread in which asyncio looks up names."""


def run(program: str, *arguments: str) -> None:
    """Warnings of what was left open are errors of the program."""
    warnings = ["-Walways::ResourceWarning", f"-W{FORK_WITH_THREADS}"]
    command = [sys.executable, *warnings, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_childs_batches_are_not_known_as_its_parents() -> None:
    producer = Producer()
    before = producer.next_headers()
    read, write = os.pipe()
    producer._forked()
    os.close(read)
    os.close(write)
    after = producer.next_headers()
    assert after["Packetboat-Producer"] != before["Packetboat-Producer"]
    assert after["Packetboat-Sequence"] == "1"


def test_threads_share_a_client() -> None:
    with RawServer() as server, Client(server.url) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client._sender.send(get()), range(200)))
        assert answers == [b"{}"] * 200
        assert server.connections <= 8


def test_a_client_may_go_on_in_another_event_loop() -> None:
    """A program that calls asyncio.run twice needs this, or a test."""
    with RawServer() as server:
        client = AsyncClient(server.url)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of the first loop's connection
            assert asyncio.run(client._sender.send(get())) == b"{}"
            assert asyncio.run(client._sender.send(get())) == b"{}"
            asyncio.run(client.close())
            gc.collect()
        assert server.connections == 2


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_closing_ends_what_other_threads_wait_for(tls: bool, tmp_path: Path) -> None:
    arrived = threading.Event()

    async def serve(peer: Peer) -> None:
        await peer.request()
        arrived.set()
        await silent(peer)

    authority = Authority(tmp_path)
    context = authority.server() if tls else None
    with RawServer(serve, context) as server, ThreadPoolExecutor(1) as pool:
        trust = Tls(ca_file=str(authority.file) if tls else None)
        client = Client(options=Options(urls=(server.url,), tls=trust, timeout_s=PATIENCE_S))
        call = pool.submit(client._sender.send, get())
        assert arrived.wait(PATIENCE_S)
        client.close()
        assert isinstance(call.exception(PATIENCE_S / 2), PacketboatError)


async def test_closing_ends_what_tasks_wait_for() -> None:
    with RawServer(silent) as server:
        client = AsyncClient(server.url)
        call = asyncio.create_task(client._sender.send(get()))
        while not server.connections:
            await asyncio.sleep(0.01)
        await client.close()
        with pytest.raises(PacketboatError):
            await call


def test_closing_twice_is_no_error_and_calls_say_so() -> None:
    client = Client("http://127.0.0.1:9")
    client.close()
    client.close()
    with pytest.raises(ClientClosed):
        client.topics.get("orders")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_client_that_was_not_closed_is_warned_of(kind: str) -> None:
    with RawServer() as server, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        if kind == "sync":
            Client(server.url)._sender.send(get())
        else:
            asyncio.run(AsyncClient(server.url)._sender.send(get()))
        gc.collect()
    assert f"a client of {server.url} was not closed" in [str(each.message) for each in seen]


def test_one_that_was_never_used_is_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Client("http://127.0.0.1:9")
        gc.collect()
