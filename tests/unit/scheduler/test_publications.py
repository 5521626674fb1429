"""The sweep of what acks that publish left: nothing that fails keeps the rest waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from metadata.delivery.deliveries import Publication, StagedOutputs
from scheduler import publications as module
from scheduler.publications import PublicationSweep
from store_nodes.client import StagedPage
from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId

DOWN, UP = 0, 1
TENANT = bytes(16)


class Rows:
    """In the order they were made; all are old enough."""

    def __init__(self, *rows: tuple[str, int]) -> None:
        """State and group of each."""
        queue = QueueId(bytes(16), 0).pack()
        self.rows = {
            bytes([n]): (
                state,
                Publication(TENANT, bytes([n]), (StagedOutputs(group, queue, (n,)),)),
            )
            for n, (state, group) in enumerate(rows)
        }

    async def with_some(self, older_than_s: Mapping[str, float]) -> set[str]:
        return {state for state, _ in self.rows.values()} & set(older_than_s)

    async def left(
        self, state: str, *, older_than_s: float, limit: int, skip: int = 0
    ) -> list[Publication]:
        found = [row for known, row in self.rows.values() if known == state]
        return found[skip : skip + limit]

    async def abort(self, tenant_id: bytes, tag: bytes) -> bool:
        state, row = self.rows[tag]
        self.rows[tag] = "aborted", row
        return state == "open"

    async def released(self, publications: Sequence[Publication]) -> None:
        for publication in publications:
            del self.rows[publication.tag]

    discarded = released

    def count(self, state: str) -> int:
        return sum(known == state for known, _ in self.rows.values())


class Store:
    """One group does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    async def release(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float
    ) -> list[int | None]:
        self._ask(group)
        return list(numbers)

    async def staged(
        self, group: int, queue: QueueId, after: int, limit: int, *, timeout_s: float
    ) -> Any:
        self._ask(group)
        return cast(StagedPage, _Nothing)

    def _ask(self, group: int) -> None:
        if group == DOWN:
            self.asked += 1
            raise Unavailable("no majority")


class _Nothing:
    staged = ()


async def test_a_group_that_does_not_answer_keeps_nobody_else_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SWEEP_AT_ONCE", 2)
    rows = Rows(
        *[("committed", DOWN)] * 5,
        *[("committed", UP)] * 3,
        *[("open", DOWN)] * 3,
        *[("open", UP)] * 3,
        *[("aborted", DOWN)] * 3,
        *[("aborted", UP)] * 3,
    )
    store = Store()
    sweep = PublicationSweep(cast(Any, store), rows, cast(Any, None), timeout_s=1.0)
    with pytest.raises(Unavailable):
        await sweep.sweep()
    assert rows.count("committed") == 5
    assert rows.count("open") == 3
    assert rows.count("aborted") == 3
    assert store.asked == 1  # not once for each that waits for it


async def test_what_cannot_be_discarded_at_once_is_aborted_all_the_same() -> None:
    rows = Rows(("open", DOWN), ("open", UP))
    await PublicationSweep(cast(Any, Store()), rows, cast(Any, None), timeout_s=1.0).sweep()
    assert (rows.count("open"), rows.count("aborted")) == (0, 1)


async def test_an_aborted_publication_is_kept_for_longer_than_staging_may_take() -> None:
    """A slow process may stage messages after the abort; they are discarded before the row goes."""
    asked: dict[str, float] = {}

    class Asked(Rows):
        async def left(
            self, state: str, *, older_than_s: float, limit: int, skip: int = 0
        ) -> list[Publication]:
            asked[state] = older_than_s
            return await super().left(state, older_than_s=older_than_s, limit=limit, skip=skip)

    rows = Asked(("open", UP), ("aborted", UP))
    await PublicationSweep(cast(Any, Store()), rows, cast(Any, None), timeout_s=1.0).sweep()
    assert asked["aborted"] > 10 * asked["open"]


async def test_what_cannot_be_discarded_yet_is_not_forgotten() -> None:
    rows = Rows(("aborted", DOWN), ("aborted", UP))
    with pytest.raises(Unavailable):
        await PublicationSweep(cast(Any, Store()), rows, cast(Any, None), timeout_s=1.0).sweep()
    assert rows.count("aborted") == 1
