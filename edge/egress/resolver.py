"""Resolves names in threads, so that a slow name holds up only the tenant that asked for it.

A name whose servers do not answer keeps its thread for half a minute, and nothing can end that. So
each asker has a few threads at most, and the rest of its questions wait behind its own. If an
answer takes long, or the resolver says to try again, an answer of the last minutes is used. Answers
are shared by all tenants; each user of an answer checks its addresses.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NamedTuple
from weakref import WeakValueDictionary

from aiohttp.abc import AbstractResolver, ResolveResult

DNS_THREADS = 64
DNS_THREADS_OF_ONE = 4
SLOW_S = 1.0
"""Seconds of waiting after which an earlier answer is used."""
FRESH_S = 10.0
"""Seconds for which an answer is used without asking again."""
KNOWN_S = 600.0
MAX_KNOWN = 10_000
_asker: ContextVar[Hashable] = ContextVar("egress_asker", default=None)


@contextmanager
def asking(asker: Hashable) -> Iterator[None]:
    """Count names that are looked up within the block as questions of `asker`, such as a tenant."""
    token = _asker.set(asker)
    try:
        yield
    finally:
        _asker.reset(token)


class Question(NamedTuple):
    """A question that a thread asks the system."""

    host: str
    port: int
    family: socket.AddressFamily

    def ask(self) -> list[ResolveResult]:
        """Ask the system's resolver. Raises OSError."""
        found = socket.getaddrinfo(
            self.host,
            self.port,
            family=self.family,
            type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )
        return [
            ResolveResult(
                hostname=self.host,
                host=str(address[0]),
                port=self.port,
                family=of_family,
                proto=proto,
                flags=socket.AI_NUMERICHOST,
            )
            for of_family, _, proto, _, address in found
        ]


class _Known(NamedTuple):
    answer: deque[ResolveResult]
    """Addresses, rotated so that each use begins with another one."""
    at_s: float

    def used(self) -> list[ResolveResult]:
        found = list(self.answer)
        self.answer.rotate(-1)
        return found

    def is_no_older_than(self, seconds: float) -> bool:
        return time.monotonic() - self.at_s <= seconds


class SystemResolver(AbstractResolver):
    """The resolver of a process; use it on one event loop."""

    def __init__(
        self,
        ask: Callable[[Question], list[ResolveResult]] = Question.ask,
        *,
        threads: int = DNS_THREADS,
        threads_of_one: int = DNS_THREADS_OF_ONE,
        slow_s: float = SLOW_S,
    ) -> None:
        self._ask = ask
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="egress-dns")
        self._threads_of_one = threads_of_one
        self._slow_s = slow_s
        self._turns: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()
        """Semaphore of each asker; there while a question of it waits or a thread is at work for
        it.
        """
        self._known: OrderedDict[Question, _Known] = OrderedDict()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host. Raises OSError."""
        question = Question(host, port, family)
        known = self._known.get(question)
        if known is None or not known.is_no_older_than(KNOWN_S):
            return await self._look_up(question)
        if known.is_no_older_than(FRESH_S):
            return known.used()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._slow_s):
                try:
                    return await self._look_up(question)
                except socket.gaierror as error:
                    if error.errno != socket.EAI_AGAIN:
                        raise
        return known.used()

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _look_up(self, question: Question) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        turn = self._turns.setdefault(_asker.get(), asyncio.Semaphore(self._threads_of_one))
        await turn.acquire()
        known = self._known.get(question)
        # answered while waiting for the turn
        if known is not None and known.is_no_older_than(FRESH_S):
            turn.release()
            return known.used()
        try:
            asked = self._threads.submit(self._ask, question)
        except RuntimeError as error:  # closed
            turn.release()
            raise OSError(str(error)) from error

        def ended(done: Future[list[ResolveResult]]) -> None:
            # It runs in its thread: the caller may have gone, but the thread was busy until now.
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(functools.partial(self._answered, turn, question, done))

        asked.add_done_callback(ended)
        return await asyncio.wrap_future(asked)

    def _answered(
        self, turn: asyncio.Semaphore, question: Question, done: Future[list[ResolveResult]]
    ) -> None:
        turn.release()
        if done.cancelled() or done.exception() is not None:
            return
        self._known[question] = _Known(deque(done.result()), time.monotonic())
        self._known.move_to_end(question)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)
