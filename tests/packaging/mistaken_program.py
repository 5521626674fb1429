"""Mistakes that a type checker must find: each line that ends in `# wrong`, and no other."""

from __future__ import annotations

from collections.abc import Iterator

from packetboat import AsyncClient, Client, Options, PublisherSettings, Tasks, Worker
from packetboat.models import Message
from packetboat.webhooks import Receiver

client = Client()
options = Options(url="https://mq.example.com")  # wrong
settings = PublisherSettings(overflow="wait")  # wrong
client.publish("orders", {"n": 1}, partition=3)  # wrong
number: int = client.publish("orders", "one").result().message_id  # wrong
client.pull("billing", max_messages="ten")  # wrong
client.topic.list()  # wrong
Worker(client, "billing", concurrancy=4)  # wrong
Worker(client, "billing").run("handle")  # wrong
Receiver("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", format="yaml")  # wrong
tasks = Tasks("words")


@tasks.map
def count(text: str) -> int:
    return len(text)


@tasks.reduce
def total(counts: Iterator[str]) -> str:
    return "".join(counts)


text: str = client.jobs.run(count, ["a"]).result()  # wrong
client.jobs.run(count, ["a"], reduce=total)  # wrong
client.jobs.run(count, [1])  # wrong
client.jobs.run(count, ["a"], tasks=3)  # wrong


async def main(other: AsyncClient) -> None:
    messages: list[Message] = other.pull("billing")  # wrong
    for _ in other.stream("billing"):  # wrong
        print(messages)
