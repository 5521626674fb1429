"""The instructions that the SDK's `publish` costs, in this tree and in an earlier commit:
`python -m benchmarks.sdk_instructions COMMIT`.

Other work on the machine changes rates and CPU times, but hardly a count: valgrind counts the
instructions of a process in which an asyncio client publishes 1 KB messages, 256 outstanding, by
its real transport to a server in its own event loop. This server answers each batch at once, and
its own share is the same on both sides. The difference between a short run and a long one is the
cost of messages alone. The messages have no keys: with keys the batches are small, and such
batches wait by the clock. Prints one JSON line; fails where a message costs over 3 % more, or a
request has fewer messages.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, cast

import packetboat
import uvloop
from packetboat import AsyncClient

from benchmarks.peer_load import stamped_body
from benchmarks.sdk_publish import IN_FLIGHT, ROOT, TOPIC
from harness import releases
from harness.releases import CURRENT, Release
from harness.settings import inherited_environment

Row = dict[str, Any]
SHORT, LONG = 4_000, 16_000
MOST = 1.03
VALGRIND = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
COUNTED = re.compile(r"I +refs: +([\d,]+)")
HEAD = b"\x81\xa8messages\xdc"
"""The begin of a batch, before the two bytes of its length."""
RECEIPT = (
    b'{"message_id":"01M4ZK8Q9T3V5X7A2C4E6G8JKM","topic":"sdk","partition":1,"offset":123456,'
    b'"publish_time":"2026-11-27T20:00:00.123456Z","duplicate":false}'
)


class Answering(asyncio.Protocol):
    """A connection of a server that stores nothing, and answers each batch with its receipts.

    It adds the messages of each batch to `sizes`.
    """

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = sizes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass.
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            found = re.search(rb"content-length: (\d+)", self._received[:end], re.IGNORECASE)
            assert found is not None
            start, stop = end + 4, end + 4 + int(found[1])
            if len(self._received) < stop:
                return
            self._answer(bytes(self._received[start : start + len(HEAD) + 2]))
            del self._received[:stop]

    def _answer(self, begin: bytes) -> None:
        assert begin.startswith(HEAD), begin
        count = int.from_bytes(begin[len(HEAD) :], "big")
        self._sizes.append(count)
        body = b'{"results":[' + b",".join([RECEIPT] * count) + b"]}"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)


async def publish(messages: int) -> Row:
    """Publish this number of messages; return the number of requests that carried them."""
    sizes: list[int] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(sizes), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    left = iter(range(messages))

    async def publisher() -> None:
        for _ in left:
            await client.publish(TOPIC, stamped_body())

    async with AsyncClient(f"http://127.0.0.1:{port}", "token") as client:
        await asyncio.gather(*(publisher() for _ in range(IN_FLIGHT)))
    server.close()
    return {"messages": sum(sizes), "requests": len(sizes), "sdk": packetboat.__file__}


class Cost(NamedTuple):
    """The cost of a message: instructions, and the messages that shared a request."""

    instructions: float
    messages_a_request: float


def cost(of: Release) -> Cost:
    """Return the cost of a message with this SDK."""
    (fewer, some), (more, all_of) = (counted(of, messages) for messages in (SHORT, LONG))
    messages = LONG - SHORT
    return Cost((more - fewer) / messages, messages / (all_of - some))


def counted(of: Release, messages: int) -> tuple[int, int]:
    """Return the instructions and the requests of a run with this SDK."""
    module = ["-m", "benchmarks.sdk_instructions", "--publish", str(messages)]
    run = subprocess.run(
        [*VALGRIND, sys.executable, *module],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=inherited_environment(**of.environment(), PYTHONHASHSEED="0"),
        check=True,
    )
    row = json.loads(run.stdout)
    if not Path(row["sdk"]).is_relative_to(of.tree):
        raise SystemExit(f"{row['sdk']} was imported, which is not in {of.tree}")
    found = COUNTED.search(run.stderr)
    assert found is not None, run.stderr
    return int(found[1].replace(",", "")), row["requests"]


def is_worse(this: Cost, then: Cost) -> bool:
    """Return whether this SDK's messages cost more, or fewer of them share a request."""
    return (
        this.instructions > MOST * then.instructions
        or this.messages_a_request * MOST < then.messages_a_request
    )


def compare(then: Release) -> int:
    """Print both costs. Return 1 if this tree is worse."""
    old, new = cost(then), cost(CURRENT)
    row: Row = {}
    for name, each in (("the commit", old), ("this tree", new)):
        row[f"{name}: instructions/msg"] = round(each.instructions)
        row[f"{name}: msgs/request"] = round(each.messages_a_request, 1)
    row["instructions, ratio"] = round(new.instructions / old.instructions, 4)
    print(json.dumps(row), flush=True)
    return int(is_worse(new, old))


def main() -> int:
    """Exit status 1 where this tree is worse, 2 where nothing can be compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", default=releases.PREVIOUS)
    parser.add_argument("--publish", type=int, metavar="MESSAGES", help="publish, as a side does")
    asked = parser.parse_args()
    if asked.publish:
        print(json.dumps(uvloop.run(publish(asked.publish))))
        return 0
    if shutil.which("valgrind") is None:
        print("nothing to count with: valgrind is not installed")
        return 2
    if reason := releases.missing(asked.commit):
        print(f"nothing to compare with: {reason}")
        return 2
    with tempfile.TemporaryDirectory(prefix="packetboat-instructions-") as directory:
        return compare(releases.unpacked(Path(directory), asked.commit))


if __name__ == "__main__":
    sys.exit(main())
