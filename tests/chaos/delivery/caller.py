"""One worker's HTTP connection: lost connections are made again, lost answers are None."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from typing import Any, NamedTuple

from packetboat.calls.pages import is_page, read_page
from packetboat.models import Message

from harness.http_client import Connection, connect, request

HOST = "127.0.0.1"
ANSWER_TIMEOUT_S = 15.0
PAUSE_S = 0.1


class Reply(NamedTuple):
    """An answer; status 0 when none came: then what was asked may have been done."""

    status: int
    body: dict[str, Any]
    sent_s: float
    answered_s: float = 0.0

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Caller:
    """One request at a time."""

    def __init__(self, port: int, token: str, others: tuple[int, ...] = ()) -> None:
        """Each connection is to one of the ports."""
        self._ports = (port, *others)
        self._token = token
        self._connection: Connection | None = None

    async def call(self, method: str, path: str, body: object = None, *, accept: str = "") -> Reply:
        """Answers status 0 instead of raising when the connection or the answer is lost.

        A page of messages in binary is returned as the JSON that it stands for.
        """
        sent_s = time.monotonic()
        data = b"" if body is None else json.dumps(body).encode()
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await connect(HOST, random.choice(self._ports))
            sent = self._connection.send(request(method, path, self._token, data, accept=accept))
            async with asyncio.timeout(ANSWER_TIMEOUT_S):  # wait_for may lose a cancellation
                answer = await sent
        except (OSError, TimeoutError):
            self.close()
            await asyncio.sleep(PAUSE_S)
            return Reply(0, {}, sent_s)
        answered_s = time.monotonic()
        decoded: Any = {}
        with contextlib.suppress(ValueError):
            if answer.status == 200 and is_page(answer.body):
                decoded = {"messages": [_members(one) for one in read_page(answer.body)]}
            else:
                decoded = json.loads(answer.body or b"{}")
        if answer.status >= 500:
            await asyncio.sleep(PAUSE_S)
        return Reply(answer.status, decoded, sent_s, answered_s)

    async def until_ok(self, method: str, path: str, body: object = None) -> Reply:
        """Repeat the request until it is answered 2xx, or with a refusal; for requests that may be
        repeated.

        409, and 404 of a deletion, count as done: by a try whose answer was lost.
        """
        deadline_s = time.monotonic() + 120
        while True:
            reply = await self.call(method, path, body)
            if reply.ok or reply.status == (404 if method == "DELETE" else 409):
                return reply
            assert reply.status in (0, 429) or reply.status >= 500, (method, path, reply)
            assert time.monotonic() < deadline_s, (method, path, reply)
            await asyncio.sleep(PAUSE_S)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _members(message: Message) -> dict[str, Any]:
    """Return a message as the members of its JSON, as far as actors read them."""
    return {
        "ack_id": message.ack_id,
        "message_id": message.message_id,
        "data": json.loads(bytes(message.data) or b"null"),
        "key": message.key,
        "attributes": message.attributes,
        "priority": message.priority,
        "partition": message.partition,
        "offset": message.offset,
        "attempt": message.attempt,
        "publish_time": message.publish_time.isoformat(),
    }
