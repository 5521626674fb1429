"""The tools of an operation: a client of the store, a view of the cluster, and its progress."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from store_nodes.admin.errors import NotFinished, OperationRefused
from store_nodes.admin.overview import Overview, overview
from store_nodes.client import StoreClient
from store_nodes.commands import GROUPS_COUNTER
from store_nodes.errors import StoreError
from store_nodes.membership import Membership

LOOK_AGAIN_S = 0.2
GROUPS_AT_ONCE = 4


class Note(NamedTuple):
    """One line of progress; `group` is None for one about the whole operation."""

    group: int | None
    text: str


Progress = Callable[[Note], None]


def quiet(note: Note) -> None:
    """Ignore the progress."""


class Operator:
    """The common state of all operations; `client` is started, and `timeout_s` bounds each
    operation.
    """

    def __init__(
        self, client: StoreClient, *, progress: Progress = quiet, timeout_s: float = 600.0
    ) -> None:
        self.client = client
        self.progress = progress
        self.timeout_s = timeout_s
        self._last: dict[int | None, str] = {}
        self._deadline_s = math.inf

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Let all waits within take no longer than `timeout_s` together."""
        self._deadline_s = asyncio.get_running_loop().time() + self.timeout_s
        try:
            yield
        finally:
            self._deadline_s = math.inf

    @property
    def late(self) -> bool:
        """Whether the time of the `bounded` block is over."""
        return asyncio.get_running_loop().time() >= self._deadline_s

    def say(self, text: str, group: int | None = None) -> None:
        """Report a line of progress, unless it repeats the last one."""
        if self._last.get(group) != text:
            self._last[group] = text
            self.progress(Note(group, text))

    async def overview(self) -> Overview:
        """Return the cluster as it is now; nodes learned a moment ago may still be dialed."""
        statuses = await self.client.status()
        return overview(statuses, self.client.nodes, self.client.groups)

    async def stable_overview(self, wait_s: float = 1.5) -> Overview:
        """Return the cluster once every known node answers, or after `wait_s`.

        Connections need some time to come up.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + wait_s
        while True:
            seen = await self.overview()
            silent = [row for row in seen.nodes if row.state == "down"]
            if not silent or loop.time() >= deadline_s:
                return seen
            await asyncio.sleep(LOOK_AGAIN_S)

    async def groups(self) -> tuple[list[int], Overview]:
        """Return every group, also one that was added a moment ago, and the overview used."""
        counted: list[int] = []

        async def count() -> bool:
            counted.append(await self.client.counter(0, GROUPS_COUNTER))
            return True

        await self.until(count, lambda: "group 0 does not say how many groups there are")
        seen = await self.overview()
        known = (row.group for row in seen.groups)
        return sorted({*known, *range(counted[0])}), seen

    async def membership(self, group: int) -> Membership:
        """Return the membership that the group's leader has applied; wait for a leader."""
        found: list[Membership] = []

        async def look() -> bool:
            seen = await self.overview()
            row = seen.group(group)
            if row is None or row.leader is None:
                return False
            found.append(seen.memberships[group])
            return True

        await self.until(look, lambda: f"group {group} has no leader")
        return found[0]

    async def until(
        self,
        reached: Callable[[], Awaitable[bool]],
        missing: Callable[[], str],
        timeout_s: float | None = None,
    ) -> None:
        """Check repeatedly until it is reached; raises NotFinished with the text of `missing`."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + (self.timeout_s if timeout_s is None else timeout_s)
        deadline_s = min(deadline_s, self._deadline_s)
        while True:
            try:
                if await reached():
                    return
            except StoreError as error:
                self.say(f"waiting: {error}")
            if loop.time() >= deadline_s:
                raise NotFinished(missing())
            await asyncio.sleep(LOOK_AGAIN_S)

    async def each(self, groups: Iterable[int], work: Callable[[int], Awaitable[None]]) -> None:
        """Do the work for several groups at a time; the first failure ends it, with the others as
        they are.
        """
        turns = asyncio.Semaphore(GROUPS_AT_ONCE)

        async def one(group: int) -> None:
            async with turns:
                await work(group)

        try:
            async with asyncio.TaskGroup() as tasks:
                for group in groups:
                    tasks.create_task(one(group))
        except ExceptionGroup as failed:
            raise _first_of(failed) from None


def _first_of(failed: ExceptionGroup[Exception]) -> Exception:
    """Return a refusal if there is one, because it says more than a time-out."""
    errors = failed.exceptions
    return next((error for error in errors if isinstance(error, OperationRefused)), errors[0])
