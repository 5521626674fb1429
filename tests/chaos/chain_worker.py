"""A process that works on a chain of stream tasks and on a plain subscription until it is killed:
`python -m tests.chaos.chain_worker STAGES FILE SEED`, with the server in PACKETBOAT_URL."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

from packetboat.models import Message
from packetboat.sync.client import Client
from packetboat.tasks.stream import Emit, stream_task
from packetboat.worker import WorkerApp

SPLITS_AT = 3
"""This stage makes two of each message."""


def topic_of(stage: int) -> str:
    """0 is what the first stage reads."""
    return f"stage-{stage}"


def stage_task(stage: int, dice: random.Random) -> Callable[[Message], Any]:
    """Odd ones are plain functions that yield, even ones coroutines that return."""
    to = topic_of(stage + 1)

    def outputs(message: Message) -> list[Emit]:
        item = message.json()
        trail = {"n": item["n"], "path": [*item["path"], stage]}
        parts = ("a", "b") if stage == SPLITS_AT else (item["part"],)
        return [Emit(to, trail | {"part": part}, key=message.key) for part in parts]

    @stream_task
    def yielding(message: Message) -> Iterator[Emit]:
        if dice.random() < 0.02:
            raise RuntimeError("bad luck")
        yield from outputs(message)

    @stream_task
    async def returning(message: Message) -> list[Emit]:
        await asyncio.sleep(dice.uniform(0, 0.02))
        return outputs(message)

    return yielding if stage % 2 else returning


def main() -> None:
    stages, path, seed = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    dice = random.Random(seed)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def write_down(message: Message) -> None:
        await asyncio.sleep(dice.uniform(0, 0.05))
        os.write(file, message.body + b"\n")

    with Client() as client:
        app = WorkerApp(client)
        app.subscription("written", concurrency=4)(write_down)
        for stage in range(stages):
            source = "stream" if stage % 3 == 2 else "pull"
            task = stage_task(stage, dice)
            app.subscription(topic_of(stage), concurrency=8, source=source)(task)  # type: ignore[arg-type]
        app.run()


if __name__ == "__main__":
    main()
