"""Passes on acks and releases, by ack id, of messages that moved while their request was out.

Best effort, for as long as a partition may take to find its next owner: what does not arrive is
delivered again when its lease is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import structlog

from edge.asgi import AUTHORISED, CALLER, TENANT, Handler, Scope
from edge.problem import Problem
from metadata.errors import MetadataError
from metadata.types import Subscription
from openapi.consume import MessageChoice
from subscribe_forwarder.fleet.proxy.relay import receiving
from subscribe_forwarder.push.outcome_commits import Late

MAX_AT_ONCE = 64
MAX_IDS = 1_000
PATIENCE_S = 10.0
RETRY_S = 0.1
_log = structlog.get_logger("packetboat.push")


class LateAcks:
    """Passes on the late acks and releases of one process."""

    def __init__(self, ack: Handler, release: Handler) -> None:
        """Make it with the owner proxies of both actions, which find the owner."""
        self._handlers: dict[Late, Handler] = {"ack": ack, "release": release}
        self._tasks: set[asyncio.Task[None]] = set()

    def pass_on(self, subscription: Subscription, how: Late, ack_ids: Sequence[bytes]) -> None:
        for at in range(0, len(ack_ids), MAX_IDS):
            if len(self._tasks) >= MAX_AT_ONCE:
                return
            work = self._pass_on(subscription, how, ack_ids[at : at + MAX_IDS])
            task = asyncio.get_running_loop().create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self, deadline_s: float) -> None:
        if self._tasks:
            _, running = await asyncio.wait(set(self._tasks), timeout=deadline_s)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _pass_on(
        self, subscription: Subscription, how: Late, ack_ids: Sequence[bytes]
    ) -> None:
        body = msgspec.json.encode(MessageChoice(ack_ids=[one.decode("ascii") for one in ack_ids]))
        loop = asyncio.get_running_loop()
        until_s = loop.time() + PATIENCE_S
        while True:
            try:
                await self._handlers[how](_scope(subscription, how), receiving(body), _nowhere)
            except (Problem, MetadataError) as error:
                lasts = isinstance(error, Problem) and error.status < 500
                if lasts or loop.time() >= until_s:
                    _log.info("late acks", subscription=subscription.name, error=str(error))
                    return
            else:
                return
            await asyncio.sleep(RETRY_S)


def _scope(subscription: Subscription, how: Late) -> Scope:
    return {
        "type": "http",
        "method": "POST",
        "path": f"/subscriptions/{subscription.name}/{how}",
        TENANT: subscription.tenant_id,
        CALLER: AUTHORISED,
        "path_params": {"name": subscription.name},
        "query_string": b"",
        "headers": [],
    }


async def _nowhere(message: object) -> None:
    """Drop an answer: the `send` of answers that nobody waits for."""
