"""Test which reads of a node are confirmed: all except those of batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from store_nodes.commands import Create, Release, StageExtras, encode, encode_append, encode_value
from store_nodes.errors import NotLeader
from store_nodes.machine.machine import Machine
from store_nodes.node.client_service import ClientService
from store_nodes.node.group import Group
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.record_batch import encode as encode_batch
from store_nodes.storage.batch_index import BatchIndex

QUEUE = QueueId(bytes(16), 0).pack()
Read = Callable[[Any], Awaitable[Any]]

CONFIRMED: dict[str, Read] = {
    "locate": lambda node: node.locate(0, QUEUE, 0),
    "staged": lambda node: node.staged(0, QUEUE, -1, 10),
    "staged_changes": lambda node: node.staged_changes(0, QUEUE, 0),
    "queues": lambda node: node.queues(0, b"", 10),
    "offset_at": lambda node: node.offset_at(0, QUEUE, 0),
    "offset_back": lambda node: node.offset_back(0, QUEUE, 10),
    "offsets": lambda node: node.offsets(0, QUEUE, confirm=True),
    "snapshot": lambda node: node.snapshot(0, confirm=True),
}
AS_FAR_AS_IT_IS: dict[str, Read] = {
    "fetch": lambda node: node.fetch(0, QUEUE, 0, 10),
    "fetch_staged": lambda node: node.fetch_staged(0, QUEUE, 9, 10),
    "offsets": lambda node: node.offsets(0, QUEUE, confirm=False),
    "snapshot": lambda node: node.snapshot(0, confirm=False),
}


class Node(ClientService):
    """The service of one group, with one staged message, that takes itself for the leader.
    `confirmation` happens when it asks a majority whether it leads."""

    def __init__(self) -> None:
        super().__init__({}, dict, self._no_batch, self._no_batch)
        self.machine = Machine(0)
        self.leading = True
        self.confirmation: Callable[[], None] = lambda: None
        self.apply(encode(Create(QUEUE, 0, b"")))
        batch = encode_batch([Message(b"later")], 1)
        self.apply(encode_append(QUEUE, bytes(16), 1, 10**6, 1, batch, extras=StageExtras(None)))

    def apply(self, raw: bytes) -> None:
        at = self.machine.applied
        self.machine.apply(at, encode_value([raw], at + 1))

    def group(self, group: int) -> Group:
        return cast(
            Group,
            SimpleNamespace(
                machine=self.machine,
                batches=BatchIndex(),
                instances=SimpleNamespace(oldest=0),
                replica=SimpleNamespace(leading=self.leading, leader=1 if self.leading else 2),
                offsets=self.machine.offsets,
                read_index=self._read_index,
            ),
        )

    async def _read_index(self) -> None:
        if not self.leading:
            raise NotLeader(2)
        self.confirmation()

    def _no_batch(self, position: Any) -> bytes:
        raise AssertionError


def deposed() -> None:
    raise NotLeader(2)


@pytest.mark.parametrize("read", CONFIRMED)
async def test_a_deposed_leader_answers_nothing_that_is_decided_by(read: str) -> None:
    node = Node()
    node.confirmation = deposed
    with pytest.raises(NotLeader):
        await CONFIRMED[read](node)


@pytest.mark.parametrize("read", CONFIRMED)
async def test_another_replica_names_the_leader(read: str) -> None:
    node = Node()
    node.leading = False
    with pytest.raises(NotLeader) as caught:
        await CONFIRMED[read](node)
    assert caught.value.hint == 2


async def test_a_leader_answers_as_of_what_it_had_applied_when_it_was_confirmed() -> None:
    """The leader has just been elected; it applies recovered values before its
    confirmation ends.
    """
    node = Node()
    node.confirmation = lambda: node.apply(encode(Release(QUEUE, (0,))))
    assert await node.locate(0, QUEUE, 0) == ("offset", 0)
    node = Node()
    node.confirmation = lambda: node.apply(encode(Release(QUEUE, (0,))))
    assert (await node.staged(0, QUEUE, -1, 10))[0] == []
    node = Node()
    node.confirmation = lambda: node.apply(encode(Release(QUEUE, (0,))))
    (info,) = await node.queues(0, b"", 10)
    assert (info.end, info.staged) == (1, 0)


@pytest.mark.parametrize("read", AS_FAR_AS_IT_IS)
async def test_any_replica_gives_what_never_changes(read: str) -> None:
    node = Node()
    node.leading = False
    await AS_FAR_AS_IT_IS[read](node)
