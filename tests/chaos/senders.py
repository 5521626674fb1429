"""The ways of a publish to the log: over HTTP as by any client, or straight into the store
nodes.
"""

from __future__ import annotations

import asyncio
import itertools
import zlib
from typing import Protocol

import msgspec

from edge.message_id import parse
from harness.http_client import Answer, Connection, connect, request
from store_nodes import record_batch
from store_nodes.client import Appender, StoreClient
from store_nodes.errors import NotDone, StoreError
from store_nodes.queue_id import QueueId
from tests.chaos.history import Outcome, Publish

ANSWER_TIMEOUT_S = 30.0
STORE_TIMEOUT_S = 10.0
PADDING = "x" * 900


class Sender(Protocol):
    """Sends one message, once, and writes down in the publish what it was told."""

    async def send(self, publish: Publish) -> None: ...

    async def close(self) -> None: ...


class Receipt(msgspec.Struct):
    """The members of a 201 that are needed."""

    message_id: str
    partition: int
    offset: int


class Refusal(msgspec.Struct):
    """The members of a problem that are needed."""

    type: str = ""
    outcome: str = ""


_receipt = msgspec.json.Decoder(Receipt)
_refusal = msgspec.json.Decoder(Refusal)


def body_of(publish: Publish, padding: str = PADDING) -> bytes:
    """Return a body of about 1 KB, or as much as the padding, that begins with the payload."""
    return f"{publish.payload} {padding}".encode()


def payload_of(data: bytes) -> str:
    """Return the payload of a stored message."""
    return data.split(b" ", 1)[0].decode()


class HttpSender:
    """One POST per message, on keep-alive connections, as many as are out at once."""

    def __init__(self, port: int, token: str, topic: str) -> None:
        self.topic_uid = b""
        """Known once a message was accepted."""
        self._port = port
        self._token = token
        self._path = f"/topics/{topic}/messages"
        self._idle: list[Connection] = []

    async def send(self, publish: Publish) -> None:
        try:
            connection = self._take_idle() or await connect("127.0.0.1", self._port)
        except OSError as error:
            publish.outcome, publish.reason = Outcome.NOT_DONE, f"connect: {type(error).__name__}"
            return
        whole = request("POST", self._path, self._token, body_of(publish), "text/plain")
        if publish.key is not None:
            header = f"\r\nPacketboat-Key: {publish.key}\r\n\r\n"
            whole = whole.replace(b"\r\n\r\n", header.encode(), 1)
        try:
            answer = await asyncio.wait_for(connection.send(whole), ANSWER_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            publish.reason, publish.abandoned = type(error).__name__, True
            connection.close()
        else:
            self._understand(publish, answer)
            self._idle.append(connection)

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    def _understand(self, publish: Publish, answer: Answer) -> None:
        if answer.status == 201:
            receipt = _receipt.decode(answer.body)
            publish.outcome = Outcome.ACKED
            publish.partition, publish.offset = receipt.partition, receipt.offset
            if not self.topic_uid:
                self.topic_uid = parse(receipt.message_id).topic_uid
            return
        refusal = _refusal.decode(answer.body)
        publish.reason = f"{answer.status} {refusal.type.rpartition('/')[2]}"
        if refusal.outcome == "not_done" or answer.status < 500:
            publish.outcome = Outcome.NOT_DONE

    async def close(self) -> None:
        for connection in self._idle:
            connection.close()
        self._idle.clear()


class StoreSender:
    """One append per message to the queue of its key, else to the next queue with a leader; it
    tells of the store alone, without a forwarder's batches and re-routing."""

    def __init__(
        self, client: StoreClient, topic_uid: bytes, groups: list[int], padding: str = PADDING
    ) -> None:
        self.topic_uid = topic_uid
        self._padding = padding
        self._client = client
        self._groups = groups
        self._appenders: list[Appender] = [
            client.appender(group, QueueId(topic_uid, partition))
            for partition, group in enumerate(groups)
        ]
        self._turn = itertools.cycle(range(len(groups)))

    async def send(self, publish: Publish) -> None:
        partition = self._partition(publish.key)
        message = record_batch.Message(body_of(publish, self._padding), key=publish.key)
        try:
            receipt = await self._appenders[partition].append(
                record_batch.encode([message], 0), 1, timeout_s=STORE_TIMEOUT_S
            )
        except NotDone as error:
            publish.outcome, publish.reason = Outcome.NOT_DONE, type(error).__name__
        except StoreError as error:
            publish.reason = type(error).__name__
        else:
            publish.outcome = Outcome.ACKED
            publish.partition, publish.offset = partition, receipt.base_offset

    def _partition(self, key: str | None) -> int:
        if key is not None:
            return zlib.crc32(key.encode()) % len(self._groups)
        for _ in self._groups:
            partition = next(self._turn)
            if self._client.has_leader(self._groups[partition]):
                return partition
        return next(self._turn)

    async def close(self) -> None:
        await self._client.close()
