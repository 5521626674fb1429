"""Moving and growing as docs/operations/partitions.md describes them, run verbatim, under load."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from harness.http_client import connect, request
from tests.e2e.installation import Installation

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "partitions.md"
SECTIONS = ("Move a partition to another group", "Give a topic more partitions")
RATE = 500
PUBLISHERS = 16
"""Half of them have a key."""


def commands(section: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8").split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^```bash\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


class Publisher:
    """Numbers, one after the other, each once the last is stored."""

    def __init__(self, name: str, key: str | None) -> None:
        self.name = name
        self.key = key
        self.sent = 0
        self.failures: list[str] = []

    async def run(self, url: str, token: str, stop: asyncio.Event) -> None:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        assert host is not None
        assert port is not None
        connection = await connect(host, port)
        while not stop.is_set():
            body = f"{self.name}/{self.sent}".encode()
            whole = request("POST", "/topics/orders/messages", token, body, "text/plain")
            if self.key is not None:
                header = f"\r\nPacketboat-Key: {self.key}\r\n\r\n"
                whole = whole.replace(b"\r\n\r\n", header.encode(), 1)
            pause = asyncio.create_task(asyncio.sleep(PUBLISHERS / RATE))
            answer = await connection.send(whole)
            if answer.status == 201:
                self.sent += 1
            else:
                self.failures.append(f"{answer.status} {answer.body[:200]!r}")
            await pause
        connection.close()


async def load(installation: Installation, publishers: list[Publisher]) -> list[dict[str, Any]]:
    """Publish while the commands run; return their output."""
    stop = asyncio.Event()
    running = [
        asyncio.create_task(publisher.run(installation.url, installation.token, stop))
        for publisher in publishers
    ]
    environment = os.environ | {
        "PACKETBOAT_URL": installation.url,
        "PACKETBOAT_TOKEN": installation.token,
        "TOPIC": "orders",
        "PARTITION": "0",
        "GROUP": "5",
        "PARTITIONS": "8",
    }
    answers = []
    for command in (command for section in SECTIONS for command in commands(section)):
        await asyncio.sleep(1)
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-euc", command],
            env=environment,
            check=True,
            capture_output=True,
        )
        answers.append(msgspec.json.decode(done.stdout, type=dict[str, Any]))
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*running)
    return answers


def test_the_commands_of_the_page_under_load(running: Installation) -> None:
    http, url = running.session(), running.url
    assert http.post(f"{url}/topics", json={"name": "orders"}).status_code == 201
    subscription = {"name": "shipping", "ack_deadline_seconds": 600, "start": "earliest"}
    assert http.post(f"{url}/topics/orders/subscriptions", json=subscription).status_code == 201
    publishers = [
        Publisher(f"p{number}", f"key-{number}" if number % 2 else None)
        for number in range(PUBLISHERS)
    ]
    listed, moved, grown = asyncio.run(load(running, publishers))
    assert [publisher.failures for publisher in publishers] == [[]] * PUBLISHERS
    assert {p["state"] for p in listed["partitions"]} == {"open"}
    assert {p["group"] for p in moved["partitions"] if p["partition"] == 0} >= {5}
    assert len({p["partition"] for p in grown["partitions"]}) == 8
    assert grown["placement"] is None

    total = sum(publisher.sent for publisher in publishers)
    assert total > 500
    got: list[dict[str, Any]] = []
    while len(got) < total:
        pull = {"max_messages": 500, "wait_seconds": 10}
        answer = http.get(f"{url}/subscriptions/shipping/messages", params=pull)
        messages = answer.json()["messages"]
        assert messages, f"{len(got)} of {total}"
        got += messages
        ids = {"ack_ids": [message["ack_id"] for message in messages]}
        acked = http.post(f"{url}/subscriptions/shipping/ack", json=ids).json()
        assert acked["acked"] == len(messages)
    for publisher in publishers:
        numbers = [
            int(message["data"].split("/")[1])
            for message in got
            if message["data"].split("/")[0] == publisher.name
        ]
        wanted = list(range(publisher.sent))
        assert (numbers if publisher.key is not None else sorted(numbers)) == wanted
    backlog = http.get(f"{url}/subscriptions/shipping/backlog").json()
    assert backlog["messages"] == 0
    assert sum(partition["acked"] for partition in backlog["partitions"]) == total
    assert http.delete(f"{url}/topics/orders").status_code == 204
