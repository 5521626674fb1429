"""The blocking client behind the names of the asyncio one, so that one test is about both."""

from __future__ import annotations

import asyncio
import inspect
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any

from packetboat import AsyncClient, Client, Receipt, Retention

KINDS = ("asyncio", "threads")
PATIENCE_S = 60.0


@asynccontextmanager
async def connected(kind: str, *arguments: Any, **options: Any) -> AsyncIterator[AsyncClient]:
    """Yield a client of that kind with the interface of the asyncio one."""
    if kind == "asyncio":
        async with AsyncClient(*arguments, **options) as client:
            yield client
        return
    with Client(*arguments, **options) as blocking:
        yield Threaded(blocking)  # type: ignore[misc]


class Threaded:
    """Calls are made in a thread."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if inspect.ismethod(found):
            return lambda *arguments, **options: Later(lambda: found(*arguments, **options))
        return found if isinstance(found, int | str | bool) else Threaded(found)


class Later:
    """The outcome of a call, to be awaited, iterated or entered."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._made: Any = None

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.to_thread(self._call).__await__()

    async def _entered(self) -> Any:
        if self._made is None:
            self._made = await asyncio.to_thread(self._call)
        return self._made

    def __aiter__(self) -> Later:
        return self

    async def __anext__(self) -> Any:
        iterator = await self._entered()
        end = object()
        item = await asyncio.to_thread(next, iterator, end)
        if item is end:
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        await asyncio.to_thread((await self._entered()).close)

    async def __aenter__(self) -> Any:
        manager = await self._entered()
        return Threaded(await asyncio.to_thread(manager.__enter__))

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self._made.__exit__, *error)


def fresh() -> str:
    return f"sdk-{uuid.uuid4().hex[:8]}"


async def all_of(items: Any) -> list[Any]:
    return [item async for item in items]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not await condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.1)


async def publish(client: AsyncClient, topic: str, *messages: Any) -> list[Receipt]:
    results = await client.publish_batch(topic, list(messages))
    receipts = [each for each in results if isinstance(each, Receipt)]
    assert len(receipts) == len(messages), results
    return receipts


@asynccontextmanager
async def topic(client: AsyncClient) -> AsyncIterator[str]:
    """Yield a topic of one partition that has a subscription of the same name."""
    name = fresh()
    await client.topics.create(name, partitions=1, retention=Retention("retain"))
    await client.subscriptions.create(name, name, start="earliest", ack_deadline_seconds=60)
    yield name
    await client.topics.delete(name, force=True)
