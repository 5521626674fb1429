"""Two workers of one subscription: they pull, ack, and remember what they were given."""

from __future__ import annotations

import asyncio
import time

import msgspec

from harness.http_client import Answer, Connection, connect, request
from tests.chaos.history import Act, Delivery, Outcome
from tests.chaos.senders import payload_of

WORKERS = 2
PULL = "max_messages=100&wait_seconds=2"
ANSWER_TIMEOUT_S = 15.0
PAUSE_S = 0.1


class Pulled(msgspec.Struct):
    """The members of a message that the consumer needs."""

    message_id: str
    ack_id: str
    partition: int
    offset: int
    data: str


class Page(msgspec.Struct):
    """The answer to a pull."""

    messages: list[Pulled]


class FailedAck(msgspec.Struct):
    """An item of the answer to an ack: only failures are listed."""

    index: int


class Acked(msgspec.Struct):
    """The answer to an ack."""

    acked: int
    results: list[FailedAck] = []


class State(msgspec.Struct):
    """The state of one message for one subscription."""

    state: str


class States(msgspec.Struct):
    """The states of one message for each subscription."""

    subscriptions: dict[str, State]


_states = msgspec.json.Decoder(States)
_page = msgspec.json.Decoder(Page)
_acked = msgspec.json.Decoder(Acked)


class Consumer:
    """Pulls and acks until stopped, through whatever happens to the servers."""

    def __init__(self, port: int, token: str, topic: str, subscription: str) -> None:
        self.deliveries: list[Delivery] = []
        self._port = port
        self._token = token
        self._topic = topic
        self._subscription = subscription
        self._path = f"/subscriptions/{subscription}"
        self._stopping = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._cancelled = False

    def start(self) -> None:
        """Pulling begins."""
        self._workers = [asyncio.create_task(self._work()) for _ in range(WORKERS)]

    async def until_acked(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until `count` different messages are acked, or the time is over.

        It asks for the fate of acks whose answer was lost, or was no 200.
        """
        deadline = time.monotonic() + timeout_s
        connection = await connect("127.0.0.1", self._port)
        seen = -1
        while len(self._settled()) < count and time.monotonic() < deadline:
            if len(self.deliveries) == seen:  # nothing came for a second
                await self._ask_for_unsettled(connection)
            seen = len(self.deliveries)
            await asyncio.sleep(1.0)
        connection.close()

    def _settled(self) -> set[tuple[int, int]]:
        return {
            (delivery.partition, delivery.offset)
            for delivery in self.deliveries
            if delivery.acked_s or delivery.found_acked
        }

    async def _ask_for_unsettled(self, connection: Connection) -> None:
        settled = self._settled()
        for delivery in list(self.deliveries):
            if (delivery.partition, delivery.offset) not in settled:
                path = f"/topics/{self._topic}/messages/{delivery.message_id}/ack"
                sent_s = time.monotonic()
                answer = await self._ask(connection, "GET", path)
                if answer.status == 200:
                    states = _states.decode(answer.body).subscriptions
                    if states[self._subscription].state == "acked":
                        now_s = time.monotonic()
                        delivery.acts.append(Act("found_acked", sent_s, now_s, Outcome.ACKED))

    async def stop(self) -> None:
        """Returns when the last answers are in."""
        self._stopping.set()
        await asyncio.gather(*self._workers, return_exceptions=self._cancelled)

    def cancel(self) -> None:
        """Give up what is waited for; `stop` then returns at once."""
        self._cancelled = True
        for worker in self._workers:
            worker.cancel()

    async def _work(self) -> None:
        connection: Connection | None = None
        while not self._stopping.is_set():
            try:
                if connection is None or connection.closed:
                    connection = await connect("127.0.0.1", self._port)
                await self._pull(connection)
            except (OSError, TimeoutError):
                if connection is not None:
                    connection.close()
                connection = None
                await asyncio.sleep(PAUSE_S)
        if connection is not None:
            connection.close()

    async def _pull(self, connection: Connection) -> None:
        sent_s = time.monotonic()
        answer = await self._ask(connection, "GET", f"{self._path}/messages?{PULL}")
        if answer.status != 200:
            await asyncio.sleep(PAUSE_S)
            return
        got_s = time.monotonic()
        messages = _page.decode(answer.body).messages
        if not messages:
            return
        given = [
            Delivery(
                self._subscription,
                message.partition,
                message.offset,
                payload_of(message.data.encode()),
                sent_s,
                got_s,
                message.message_id,
                message.ack_id,
            )
            for message in messages
        ]
        self.deliveries += given
        sent_s = time.monotonic()
        acts = [Act("ack", sent_s) for _ in given]
        for delivery, act in zip(given, acts, strict=True):
            delivery.acts.append(act)
        body = msgspec.json.encode({"ack_ids": [message.ack_id for message in messages]})
        answer = await self._ask(connection, "POST", f"{self._path}/ack", body)
        if answer.status == 200:
            failed = {item.index for item in _acked.decode(answer.body).results}
            now_s = time.monotonic()
            for index, act in enumerate(acts):
                act.answered_s = now_s
                act.outcome = Outcome.NOT_DONE if index in failed else Outcome.ACKED

    async def _ask(
        self, connection: Connection, method: str, path: str, body: bytes = b""
    ) -> Answer:
        whole = request(method, path, self._token, body)
        return await asyncio.wait_for(connection.send(whole), ANSWER_TIMEOUT_S)
