"""A topic whose log is truncated, and an export that writes it into a table, behind a transport."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from packetboat.transport import Request, Response, StreamResponse
from packetboat.transport.seam import AsyncStreamResponse

from tests.unit.sdk.cli_support import answer, problem
from tests.unit.sdk.lake_support import TOPIC, UID, LakeTable, Lane, published, row

CREATED = "2025-12-31T00:00:00Z"


@dataclass
class Log:
    """The log of one lane.

    The offsets `first` … `end` − 1 are stored; those below `exported` are in the table.
    """

    first: int = 0
    end: int = 0
    exported: int = 0


@dataclass
class History:
    """The server that `client.read` asks.

    `before` is called with each request, and may change things.
    """

    lanes: dict[Lane, Log] = field(default_factory=lambda: {(0, 0): Log()})
    table: LakeTable | None = None
    rejects: LakeTable | None = None
    export: dict[str, Any] = field(default_factory=dict)
    priorities: int = 1
    requests: list[str] = field(default_factory=list)
    before: Callable[[str], object] = lambda _: None
    page: int = 4

    def publish(self, count: int, lane: Lane = (0, 0)) -> None:
        self.lanes[lane].end += count

    def run(self, lane: Lane = (0, 0), **columns: Any) -> None:
        """The export takes what is new."""
        log = self.lanes[lane]
        assert self.table is not None
        begin = max(log.exported, log.first)
        if begin < log.end:
            self.table.append([row(at, *lane, n=at, **columns) for at in range(begin, log.end)])
        log.exported = log.end

    def truncate(self, to: int, lane: Lane = (0, 0)) -> None:
        log = self.lanes[lane]
        log.first = max(log.first, to)

    def send(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.path}")
        self.before(request.path)
        parts = urlsplit(request.path)
        query = dict(parse_qsl(parts.query))
        match parts.path.strip("/").split("/"):
            case ["topics", name]:
                return answer(self._topic(name))
            case ["topics", _, "partitions", partition, what]:
                lane = int(partition), int(query.get("lane", 0))
                return (self._messages if what == "messages" else self._offsets)(lane, query)
            case ["exports"]:
                taking = (each for each in self._exports() if query["topic"] == TOPIC)
                short = [{**each, "positions": None} for each in taking]
                return answer({"exports": short, "next_page_token": None})
            case ["exports", name]:
                found = [each for each in self._exports() if each["name"] == name]
                return answer(found[0]) if found else problem(404, "export-not-found")
        return problem(404, "route-not-found")

    def _topic(self, name: str) -> dict[str, Any]:
        partitions = 1 + max(partition for partition, _ in self.lanes)
        times = {"created_at": CREATED, "updated_at": CREATED}
        more = {"partitions": partitions, "priorities": self.priorities}
        return {"name": name, "retention": {}, **times, **more}

    def _offsets(self, lane: Lane, query: dict[str, str]) -> Response:
        log = self.lanes[lane]
        asked = datetime.fromisoformat(query["time"])
        times = (at for at in range(log.first, log.end) if published(at) >= asked)
        return answer({"first": log.first, "end": log.end, "at": next(times, log.end)})

    def _messages(self, lane: Lane, query: dict[str, str]) -> Response:
        log = self.lanes[lane]
        start = int(query["offset"])
        if start < log.first:
            return problem(410, "offset-truncated", first_offset=log.first)
        end = min(log.end, int(query.get("end_offset", log.end)), start + self.page)
        messages = [_stored(at, lane) for at in range(start, end)]
        after = max(start, end)
        bounds = {"first_offset": log.first, "end_offset": log.end, "next_offset": after}
        return answer({"messages": messages, **bounds})

    def _exports(self) -> list[dict[str, Any]]:
        if self.table is None:
            return []
        positions = [
            {"topic": TOPIC, "topic_uid": UID, "partition": partition, "lane": lane}
            | {"offset": log.exported, "end_offset": log.end}
            for (partition, lane), log in self.lanes.items()
        ]
        plain = {"name": "e", "topic": TOPIC, "table": "t", "positions": positions}
        times = {"created_at": CREATED, "updated_at": CREATED}
        states = {
            "table_state": self.table.state,
            "rejects_state": None if self.rejects is None else self.rejects.state,
        }
        return [{**plain, **times, **states, **self.export}]

    def stream(self, request: Request) -> AbstractContextManager[StreamResponse]:
        raise NotImplementedError

    def close(self) -> None:
        pass


class AsyncHistory:
    """A transport for asyncio over a history."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def send(self, request: Request) -> Response:
        return self._history.send(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncStreamResponse]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def _stored(offset: int, lane: Lane) -> dict[str, Any]:
    kept = row(offset, *lane)
    names = ("message_id", "partition", "offset", "key", "content_type", "publisher_id", "priority")
    return {
        **{name: kept[name] for name in names},
        "attributes": dict(kept["attributes"]),
        "publish_time": kept["publish_time"].isoformat(),
        "data": {"n": offset},
    }
