"""Test how Spark plans to read the messages that a server has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from packetboat.errors import UnknownOutcome
from packetboat.options import Options
from packetboat.spark import planning
from packetboat.spark.errors import InvalidOption, ReadFailed
from packetboat.spark.options import read_options
from packetboat.spark.planning import Planner
from packetboat.spark.ranges import Lane, Split
from packetboat.sync.sender import Sender
from packetboat.transport import Request, Response, StreamResponse

START = datetime(2026, 1, 1, tzinfo=UTC)


def generation(
    partition: int, lane: int = 0, first: int | None = 0, end: int | None = 10, **more: Any
) -> dict[str, Any]:
    """Return a generation, which is open unless `more` says otherwise."""
    row = {"partition": partition, "lane": lane, "first": first, "end": end}
    return row | {"generation": 0, "group": 0, "state": "open", "base": 0} | more


class Partitions:
    """A server that knows topics' partitions; a message was published each second. A transport."""

    def __init__(self, **topics: list[dict[str, Any]]) -> None:
        self._topics = topics
        self.exact: dict[tuple[str, int, int], tuple[int, int]] = {}
        """First and end, of whom it is asked; else those of the generation."""
        self.asked: list[str] = []
        self.fails = 0

    def send(self, request: Request) -> Response:
        self.asked.append(request.path)
        if self.fails:
            self.fails -= 1
            raise UnknownOutcome("no answer")
        path = urlsplit(request.path)
        _, _, topic, *rest = path.path.split("/")
        if topic not in self._topics:
            return Response(404, {}, b'{"type": "topic-not-found", "title": "no topic"}')
        if len(rest) == 1:
            return _json({"partitions": self._topics[topic]})
        query = parse_qs(path.query)
        return _json(self._offsets(topic, int(rest[1]), query))

    @contextmanager
    def stream(self, request: Request) -> Iterator[StreamResponse]:
        raise AssertionError("plans stream nothing")
        yield

    def close(self) -> None:
        pass

    def _offsets(self, topic: str, partition: int, query: dict[str, list[str]]) -> dict[str, int]:
        lane = int(query.get("lane", ["0"])[0])
        rows = [
            row
            for row in self._topics[topic]
            if (row["partition"], row["lane"]) == (partition, lane)
        ]
        first, end = self.exact.get((topic, partition, lane), (rows[-1]["first"], rows[-1]["end"]))
        at = (datetime.fromisoformat(query["time"][0]) - START) // timedelta(seconds=1)
        return {"first": first, "end": end, "at": min(max(at, first), end)}


def _json(value: object) -> Response:
    return Response(200, {}, msgspec.json.encode(value))


def planner(server: Partitions, **given: str) -> Planner:
    options = read_options({"url": "http://x", "retry_for_seconds": "9"} | given, {})
    return Planner(Sender(Options(retry_for_s=0.0), server), options)


def places(splits: list[Split]) -> list[tuple[str, int, int, int, int]]:
    return [(s.lane.topic, s.lane.partition, s.lane.lane, s.start, s.end) for s in splits]


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr(planning, "wait", waited.append)
    return waited


def test_all_of_a_topic_is_one_question() -> None:
    server = Partitions(a=[generation(1, 1), generation(0), generation(1, first=4)])
    found = places(planner(server, topic="a").splits())
    assert found == [("a", 0, 0, 0, 10), ("a", 1, 0, 4, 10), ("a", 1, 1, 0, 10)]
    assert server.asked == ["/topics/a/partitions"]


def test_a_lane_that_moved_or_is_not_known_is_asked_itself() -> None:
    """The answer for sealed generations does not tell which are gone and which do not answer."""
    sealed = generation(0, first=None, end=None, state="sealed")
    server = Partitions(a=[sealed, generation(0, first=7), generation(1, 2, None, None)])
    server.exact = {("a", 0, 0): (3, 10), ("a", 1, 2): (5, 6)}
    assert places(planner(server, topic="a").splits()) == [("a", 0, 0, 3, 10), ("a", 1, 2, 5, 6)]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"from_offset": "5"}, [(5, 10), (5, 20)]),
        ({"from_offset": "12"}, [(12, 10), (12, 20)]),
        ({"from_offset": "latest"}, [(10, 10), (20, 20)]),
        ({"from_offset": '{"1": 15}'}, [(2, 10), (15, 20)]),
        ({"to_offset": '{"1": 15}'}, [(2, 10), (2, 15)]),
        ({"to_offset": "earliest"}, [(2, 2), (2, 2)]),
        ({"to_offset": "99"}, [(2, 10), (2, 20)]),
        ({"from_time": "2026-01-01T00:00:08Z"}, [(8, 10), (8, 20)]),
        ({"to_time": "2026-01-01T00:00:15Z"}, [(2, 10), (2, 15)]),
        ({"partitions": "1"}, [(2, 20)]),
        ({"from_offset": "0", "on_truncated": "skip"}, [(2, 10), (2, 20)]),
    ],
)
def test_places(given: dict[str, str], found: list[tuple[int, int]]) -> None:
    server = Partitions(a=[generation(0, first=2), generation(1, first=2, end=20)])
    splits = planner(server, topic="a", **given).splits()
    assert [(split.start, split.end) for split in splits] == found


def test_what_was_truncated_is_named_before_anything_is_read() -> None:
    server = Partitions(a=[generation(0, first=7)])
    with pytest.raises(ReadFailed, match=r"partition 0: nothing is stored at offset 3.* is 7"):
        planner(server, topic="a", from_offset="3").splits()


def test_ranges_are_taken_as_they_are() -> None:
    key = '{"topic": "a", "topic_uid": "", "partition": 4, "lane": 1}'
    text = f'[{{"key": {key}, "start": 1, "end": 3}}]'
    server = Partitions()
    assert places(planner(server, ranges=text).splits()) == [("a", 4, 1, 1, 3)]
    assert server.asked == []


def test_partitions_that_there_are_not() -> None:
    with pytest.raises(InvalidOption, match=r"partitions: topic a has no \[3, 5\]"):
        planner(Partitions(a=[generation(0)]), topic="a", partitions="0,5,3").splits()


def test_a_question_is_asked_again_and_a_refusal_is_not(pauses: list[float]) -> None:
    server = Partitions(a=[generation(0)])
    server.fails = 2
    assert places(planner(server, topic="a").splits()) == [("a", 0, 0, 0, 10)]
    assert len(pauses) == 2
    with pytest.raises(ReadFailed, match="404 topic-not-found"):
        planner(server, topic="b").splits()
    assert len(pauses) == 2


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(8, None, [(8, 10)]), (None, 5, [(0, 5)]), (3, 5, [(3, 5)]), (50, None, [])],
)
def test_times_narrow_what_is_read(
    start: int | None, end: int | None, found: list[tuple[int, int]]
) -> None:
    def moment(after_s: int | None) -> datetime | None:
        return None if after_s is None else START + timedelta(seconds=after_s)

    server = Partitions(a=[generation(0)])
    whole = [Split(Lane("a", 0), 0, 10), Split(Lane("a", 0), 4, 4)]
    left = planner(server, topic="a").narrowed(whole, moment(start), moment(end))
    assert [(each.start, each.end) for each in left if each.start < each.end] == found
