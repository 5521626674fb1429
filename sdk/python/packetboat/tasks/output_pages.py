"""The outputs of a job's tasks that succeeded, in the order of its inputs, a page at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Protocol

import msgspec

from packetboat.models import Page
from packetboat.models.jobs import JobOutput

FIRST_PAGE = 100
MAX_PAGE = 1000
PAGE_BYTES = 1024 * 1024
_values = msgspec.json.Decoder(list[msgspec.Raw])


class ReadsOutputs(Protocol):
    """The part of `client.jobs` that reads outputs."""

    async def outputs_page(
        self, name: str, *, first_index: int, page_size: int, page_token: str | None
    ) -> Page[JobOutput]: ...


class OutputPages:
    """The outputs of a job, page by page.

    Pages grow until they have about `PAGE_BYTES`, and only one is in memory at a time. With `count`
    the outputs are those of `count` inputs from `first_index` on; with `lists` each output is a
    list of values, which are returned one by one.
    """

    def __init__(
        self,
        jobs: ReadsOutputs,
        job: str,
        first_index: int = 0,
        count: int | None = None,
        *,
        lists: bool = False,
    ) -> None:
        self._jobs = jobs
        self._job = job
        self._first_index = first_index
        self._count = count
        self._lists = lists
        self._page_size = FIRST_PAGE
        self._token: str | None = None
        self._over = count == 0

    async def next(self) -> list[msgspec.Raw] | None:
        """Return the next page, which may be empty; None after the last."""
        if self._over:
            return None
        page = await self._jobs.outputs_page(
            self._job,
            first_index=self._first_index,
            page_size=min(self._page_size, self._count or self._page_size),
            page_token=self._token,
        )
        self._token = page.next_page_token
        outputs = [each for each in page.items if self._wanted(each.index)]
        self._over = self._token is None or len(outputs) < len(page.items)
        self._grow(outputs)
        succeeded = [each.output for each in outputs if each.error is None]
        if self._lists:
            return [value for output in succeeded for value in _values.decode(output)]
        return succeeded

    def _wanted(self, index: int) -> bool:
        return self._count is None or index < self._first_index + self._count

    def _grow(self, outputs: list[JobOutput]) -> None:
        size = sum(len(bytes(each.output)) for each in outputs)
        if outputs:
            fit = PAGE_BYTES // max(size // len(outputs), 1)
            self._page_size = max(1, min(fit, 2 * self._page_size, MAX_PAGE))


async def each_output(pages: OutputPages) -> AsyncIterator[msgspec.Raw]:
    """Yield all outputs to a handler that runs on the loop."""
    while (page := await pages.next()) is not None:
        for raw in page:
            yield raw


def each_output_of(next_page: Callable[[], list[msgspec.Raw] | None]) -> Iterator[msgspec.Raw]:
    """Yield all outputs to a handler that runs elsewhere; `next_page` blocks."""
    while (page := next_page()) is not None:
        yield from page
