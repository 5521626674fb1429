"""A user's code, with each call once: it must be free of errors under `--strict`. Never run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import msgspec
from packetboat import (
    AsyncClient,
    Client,
    NotDone,
    Outgoing,
    TaskContext,
    Tasks,
    TaskWorker,
    UnknownOutcome,
    Worker,
    WorkerApp,
)
from packetboat.models import Message, Receipt
from packetboat.webhooks import Challenge, Delivery, Pace, Receiver
from packetboat.worker import Context, Emit, Reject, WorkerEvents


class Order(msgspec.Struct):
    number: int


def publish(client: Client) -> list[str]:
    receipts: list[Receipt] = [
        client.publish("orders", {"number": n}, key="a").result() for n in (1, 2)
    ]
    stored: list[str] = []
    for outcome in client.publish_batch("orders", ["text", Outgoing(data={"a": 1}, priority=3)]):
        if isinstance(outcome, NotDone | UnknownOutcome):
            print(outcome)
        elif isinstance(outcome, Receipt):
            stored.append(outcome.message_id)
    return [*stored, *(receipt.message_id for receipt in receipts)]


def consume(client: Client) -> int:
    messages: list[Message] = client.pull("billing", max_messages=10, wait_seconds=5)
    settled = client.ack("billing", messages)
    names: list[str] = [topic.name for topic in client.topics.list()]
    return len(settled.failures) + len(names)


async def consume_async() -> None:
    async with AsyncClient("https://mq.example.com", "token") as client:
        receipt: Receipt = await client.publish("orders", b"\x00", ttl_seconds=60)
        print(receipt.offset)
        async for message in client.stream("billing"):
            await client.ack("billing", message)
        async for dead in client.dead_letters.list("billing"):
            print(dead.message_id)


class Counting(WorkerEvents):
    def received(self, subscription: str, messages: int) -> None:
        print(subscription, messages)


def handle(order: Order, context: Context) -> Emit | None:
    if order.number < 0:
        raise Reject("no such order")
    return Emit("bills", msgspec.to_builtins(order)) if context.attempt == 1 else None


def work(client: Client) -> None:
    Worker(client, "billing", concurrency=4, events=Counting()).run(handle, body=Order)
    app = WorkerApp(client)

    @app.subscription("audit", batch_size=100)
    async def audit(messages: list[Message]) -> None:
        print(len(messages))

    app.run()


tasks = Tasks("words")


@tasks.map(pool="cpu")
def count(text: str) -> int:
    return len(text.split())


@tasks.reduce
def total(counts: Iterator[int]) -> int:
    return sum(counts)


@tasks.map
async def words(text: str, context: TaskContext) -> dict[str, int]:
    return dict.fromkeys(text.split(), context.index)


@tasks.reduce
def known(found: Iterator[Mapping[str, int]]) -> list[str]:
    return sorted({word for each in found for word in each})


@tasks.fold(fan_in=10)
def merged(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {**left, **right}


def run_jobs(client: Client) -> int:
    handled: int = client.jobs.run(count, ["a b", "c"], reduce=total).result(timeout_s=60)
    found: list[str] = client.jobs.run(words, ["a b"], reduce=known).result()
    folded: dict[str, int] = client.jobs.run(words, iter(["a"]), reduce=merged).result()
    client.jobs.run("words.count", ["a"], name=f"{found} {folded}").wait()
    TaskWorker(client, tasks, pools={"cpu": 2}).run()
    return handled


def receive(body: bytes, headers: dict[str, str]) -> int:
    def take(delivery: Delivery) -> Pace | None:
        print([message.text for message in delivery.messages])
        return None

    receiver = Receiver(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"], format="json")
    seen = receiver.verify(body, headers)
    print(seen.text if isinstance(seen, Challenge) else seen.webhook_id)
    return receiver.answer(body, headers, take).status


if __name__ == "__main__":
    with Client(retry_for_s=30) as shared:
        print(publish(shared), consume(shared), run_jobs(shared), receive(b"", {}))
        work(shared)
    asyncio.run(consume_async())
