"""A copy of a store in memory, to which things happen while it is copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from store_nodes.errors import Unavailable
from store_nodes.queue_id import QueueId
from tests.unit.backup.backup_support import TOPIC, FakeStore, copy, nothing, texts

A, B = QueueId(TOPIC, 0), QueueId(TOPIC, 1)


@pytest.fixture
def store() -> FakeStore:
    """Return a store with two queues, one in each group, with three batches each."""
    store = FakeStore()
    for group, queue, name in ((0, A, "a"), (1, B, "b")):
        store.create(group, queue)
        for number in range(3):
            store.append(group, queue, f"{name}{number}")
    return store


async def test_what_is_live_is_copied_and_nothing_else(store: FakeStore, tmp_path: Path) -> None:
    store.truncate(0, A, 2, 0)
    store.stage(1, B, "later", "never")
    store.release(1, B, 0)
    copied = await copy(store, tmp_path / "one")
    assert sorted(texts(copied)) == ["a0", "a2", "b0", "b1", "b2", "later", "never"]
    assert [copied.restored[group].applied for group in (0, 1)] == [
        store.machines[group].applied for group in (0, 1)
    ]


async def test_the_next_copy_asks_for_what_is_new(store: FakeStore, tmp_path: Path) -> None:
    first = await copy(store, tmp_path / "one")
    store.append(0, A, "a3")
    store.fetches = 0
    second = await copy(store, tmp_path / "two", first.packs)
    assert store.fetches == 1
    assert sorted(texts(second)) == ["a0", "a1", "a2", "a3", "b0", "b1", "b2"]


async def test_a_pack_that_is_mostly_dead_is_left_behind(store: FakeStore, tmp_path: Path) -> None:
    first = await copy(store, tmp_path / "one")
    store.truncate(0, A, 3)
    store.truncate(1, B, 2)
    second = await copy(store, tmp_path / "two", first.packs)
    assert texts(second) == ["b2"]
    assert not set(first.packs) & set(second.packs)
    store.truncate(1, B, 3)
    assert (await copy(store, tmp_path / "three", second.packs)).packs == ()


async def test_what_is_truncated_during_the_copy_is_not_in_it(
    store: FakeStore, tmp_path: Path
) -> None:
    def truncate() -> None:
        store.truncate(0, A, 2)
        store.meanwhile = nothing

    store.meanwhile = truncate
    copied = await copy(store, tmp_path / "one")
    assert sorted(texts(copied)) == ["a2", "b0", "b1", "b2"]
    assert copied.restored[0].offsets(A.pack()).first == 2


async def test_a_queue_that_moves_during_the_copy_is_copied_whole(
    store: FakeStore, tmp_path: Path
) -> None:
    """The copy takes the old group before the move, and the new group after it."""

    def move(group: int) -> None:
        if group == 0:
            store.after_snapshot = nothing
            store.append(0, A, "last")
            moved = A._replace(generation=1)
            store.create(1, moved, store.seal(0, A, 1))
            store.append(1, moved, "first")

    store.after_snapshot = move
    copied = await copy(store, tmp_path / "one")
    assert {"last", "first"} <= set(texts(copied))
    assert copied.restored[0].offsets(A.pack()).sealed


async def test_a_queue_in_the_middle_that_is_made_during_the_copy_is_in_it(
    store: FakeStore, tmp_path: Path
) -> None:
    """Moved twice, there and back: what is between is made after its group was copied."""

    def move(group: int) -> None:
        if group == 0:
            store.after_snapshot = nothing
            middle, last = A._replace(generation=1), A._replace(generation=2)
            store.create(0, middle, store.seal(0, A, 0))
            store.append(0, middle, "middle")
            store.create(1, last, store.seal(0, middle, 1))
            store.append(1, last, "end")

    store.after_snapshot = move
    copied = await copy(store, tmp_path / "one")
    assert {"a2", "middle", "end"} <= set(texts(copied))


async def test_a_machine_is_of_the_leader_that_applied_all_that_was_decided_before(
    store: FakeStore, tmp_path: Path
) -> None:
    store.leaders = [3, 2, 1]
    assert len(texts(await copy(store, tmp_path / "one"))) == 6


async def test_what_no_node_has_is_told(store: FakeStore, tmp_path: Path) -> None:
    store.batches[A.pack()].clear()
    with pytest.raises(Unavailable, match="no node has"):
        await copy(store, tmp_path / "one")
