"""Replay reads over a store in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edge.asgi import AUTHORISED, CALLER
from edge.load import MachineLoad
from edge.problem import Problem
from metadata.types import Partition, SealedPartition
from store_nodes.queue_id import QueueId
from subscribe_forwarder.api.replay import ReplayRoutes
from subscribe_forwarder.delivery.selection.worker_evaluator import WorkerEvaluator
from tests.unit.subscribe_forwarder.subscribe_support import (
    LOG_TIME_US,
    TENANT,
    TOPIC_UID,
    Answer,
    FakeMetadata,
    FakeQueue,
    FakeStore,
    topic,
)


class Site:
    """A topic of one partition, and the routes."""

    def __init__(self) -> None:
        self.store = self.history = FakeStore()
        self.store.queues[QueueId(TOPIC_UID, 0)] = FakeQueue()
        self.catalog = FakeMetadata(topic())
        self.load = MachineLoad(machine=lambda: (0.0, 0.0))
        self.evaluator: WorkerEvaluator | None = None
        self.routes = ReplayRoutes(self)
        self.parts: list[bytes] = []
        self.on_part: Callable[[], None] = lambda: None

    async def take(self, body: bytes) -> None:
        """Return once the client has taken a part of an answer: at once."""

    def move(self) -> None:
        """The partition goes on in another queue."""
        sealed_at = self.store.seal()
        was = self.catalog.topics[TOPIC_UID]
        sealed = SealedPartition(0, 0, 0, 0, 0, sealed_at, LOG_TIME_US, 1)
        following = Partition(0, 1, generation=1, base=sealed_at)
        self.catalog.topics[TOPIC_UID] = replace(was, sealed=(sealed,), partitions=(following,))

    async def ask(
        self,
        query: str = "",
        what: str = "messages",
        accept: bytes = b"application/json",
        gone_after_s: float = 3600.0,
        refusal: Problem | None = None,
        tenant_id: bytes = TENANT,
        **params: str,
    ) -> Answer:
        answer, asked = Answer(0, {}, b""), False
        self.parts = []

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await asyncio.sleep(gone_after_s)
            if refusal is not None:
                raise refusal
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status, answer.headers = message["status"], dict(message["headers"])
            else:
                self.on_part()
                await self.take(message["body"])
                answer.body += message["body"]
                self.parts.append(bytes(message["body"]))

        scope: dict[str, Any] = {
            "packetboat.tenant": tenant_id,
            CALLER: AUTHORISED,
            "path_params": {"topic": "orders", "partition": "0"} | params,
            "query_string": query.encode(),
            "headers": [(b"accept", accept)],
        }
        try:
            await getattr(self.routes, what)(scope, receive, send)
        except Problem as problem:
            return Answer(problem.status, {}, problem.to_json())
        return answer

    async def read(self, query: str = "") -> dict[str, Any]:
        answer = await self.ask(query)
        assert answer.status == 200, answer.body
        found: dict[str, Any] = answer.json()
        return found
