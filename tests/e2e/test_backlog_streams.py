"""Streams of backlogs over real sockets, with a real Postgres and a real store behind them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import requests

from tests.e2e.installation import Installation

PATIENCE_S = 30


class World:
    """A topic with two subscriptions of names that begin alike."""

    def __init__(self, installation: Installation) -> None:
        self.http, self.url = installation.session(), installation.url
        self.name = f"backlogs-{uuid.uuid4().hex[:8]}"
        self.post("/topics", {"name": self.name, "partitions": 3})
        for suffix in ("a", "b"):
            self.subscribe(suffix)

    def post(self, path: str, body: object) -> Any:
        answer = self.http.post(self.url + path, json=body, timeout=PATIENCE_S)
        answer.raise_for_status()
        return answer.json()

    def subscribe(self, suffix: str) -> None:
        made = {"name": f"{self.name}-{suffix}", "start": "earliest"}
        self.post(f"/topics/{self.name}/subscriptions", made)

    def publish(self, count: int) -> None:
        messages = [{"data": str(each), "key": str(each)} for each in range(count)]
        answer = self.post(f"/topics/{self.name}/messages:batch", {"messages": messages})
        assert not [each for each in answer["results"] if "message_id" not in each], answer

    @contextmanager
    def stream(self, path: str, **query: object) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the objects of the stream's lines."""
        params = {"max_seconds": PATIENCE_S, **query}
        with self.http.get(
            self.url + path, params=params, stream=True, timeout=PATIENCE_S
        ) as answer:
            answer.raise_for_status()
            yield (json.loads(line) for line in answer.iter_lines(chunk_size=1))


def until(
    lines: Iterator[dict[str, Any]], is_it: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Return the first object for which `is_it` is true."""
    for one in lines:
        if is_it(one):
            return one
    raise AssertionError("the stream ended before")


def has(name: str, messages: int, leased: int = 0) -> Callable[[dict[str, Any]], bool]:
    def is_it(one: dict[str, Any]) -> bool:
        told = one.get("backlog", {})
        return (told.get("subscription"), told.get("messages"), told.get("leased")) == (
            name,
            messages,
            leased,
        )

    return is_it


def test_what_is_published_pulled_and_acked_is_told(running: Installation) -> None:
    w = World(running)
    w.publish(5)
    reader = f"{w.name}-a"
    with w.stream("/backlog:stream", subscription=f"{w.name}*") as lines:
        assert next(lines)["heartbeat"]["subscriptions"] == 2
        shown = until(lines, has(reader, 5))["backlog"]
        assert [each["partition"] for each in shown["partitions"]] == [0, 1, 2]
        assert shown["complete"]
        w.publish(2)
        until(lines, has(reader, 7))
        pulled = w.post(f"/subscriptions/{reader}:pull", {"max_messages": 100})["messages"]
        until(lines, has(reader, 7, leased=len(pulled)))
        ids = [message["ack_id"] for message in pulled]
        w.post(f"/subscriptions/{reader}/ack", {"ack_ids": ids})
        until(lines, has(reader, 7 - len(pulled)))


def test_subscriptions_that_come_and_go_while_it_is_open(running: Installation) -> None:
    w = World(running)
    w.publish(3)
    with w.stream("/backlog:stream", subscription=f"{w.name}-*") as lines:
        until(lines, has(f"{w.name}-b", 3))
        w.subscribe("later")
        until(lines, has(f"{w.name}-later", 3))
        w.http.delete(f"{w.url}/subscriptions/{w.name}-b?force=true", timeout=PATIENCE_S)
        gone = until(lines, lambda one: "removed" in one)
        assert gone["removed"]["subscription"] == f"{w.name}-b"


def test_a_seek_is_told(running: Installation) -> None:
    w = World(running)
    w.publish(4)
    reader = f"{w.name}-a"
    with w.stream(f"/subscriptions/{reader}/backlog:stream") as lines:
        until(lines, has(reader, 4))
        w.post(f"/subscriptions/{reader}/seek", {"to": "latest"})
        until(lines, has(reader, 0))


def test_the_stream_of_one_ends_with_it(running: Installation) -> None:
    w = World(running)
    with w.stream(f"/subscriptions/{w.name}-a/backlog:stream") as lines:
        until(lines, has(f"{w.name}-a", 0))
        w.http.delete(f"{w.url}/subscriptions/{w.name}-a", timeout=PATIENCE_S)
        assert until(lines, lambda one: "end" in one)["end"]["problem"]["status"] == 404


def test_a_name_that_is_not_there(running: Installation) -> None:
    answer = requests.get(
        f"{running.url}/backlog:stream?subscription=nobody",
        headers={"Authorization": f"Bearer {running.token}"},
        timeout=PATIENCE_S,
    )
    assert answer.status_code == 404
