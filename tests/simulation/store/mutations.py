"""Seeded bugs of the store around its consensus core: the simulation must notice each.

Each is a context manager that patches the product. Where several of its rules hold the same
promise, one behind the other, a mutation takes all of them out: that is the defect that was mended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

from store_nodes.checkpoint.files import DiskFiles
from store_nodes.checkpoint.format import GroupCheckpoint
from store_nodes.client.appender import _Entry
from store_nodes.consensus.acceptor import Acceptor
from store_nodes.errors import NotLeader
from store_nodes.machine import machine, snapshot
from store_nodes.machine.dedup import DedupTable
from store_nodes.machine.outcomes import CounterSet
from store_nodes.machine.queues import Queue
from store_nodes.machine.stages import Stages
from store_nodes.node import install, node, start
from store_nodes.node.client_service import ClientService
from store_nodes.node.copying import Copier, Lack
from store_nodes.node.group import Group
from store_nodes.node.start import CheckpointDraft
from store_nodes.storage import compaction
from store_nodes.wal.frame import HEADER_BYTES
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position

Mutation = Callable[[], AbstractContextManager[object]]


def patches(*changes: tuple[object, str, object]) -> AbstractContextManager[object]:
    """Patch all of them at once: (object, attribute, its replacement)."""
    stack = ExitStack()
    for target, name, value in changes:
        stack.enter_context(mock.patch.object(target, name, value))
    return stack


def unguarded(least: Callable[[Acceptor, int], int | None]) -> AbstractContextManager[object]:
    """Nothing compares an image with what its group has, but this with what a source may give; and
    nothing remembers how far the group was."""

    def without_reached(
        group: int, promised: int, upto: int, raw: Any, reached: int
    ) -> GroupCheckpoint:
        return GroupCheckpoint(group, promised, upto, raw, 0)

    def taken(*_: object) -> bool:
        return True

    return patches(
        (install, "is_ahead", taken),
        (start, "is_ahead", taken),
        (install, "least_of", least),
        (node, "is_behind", lambda checkpoint, groups: False),
        (start, "GroupCheckpoint", without_reached),
    )


def an_install_takes_a_group_back() -> AbstractContextManager[object]:
    """B1, P1: any image of any peer is taken, also of one that is behind."""
    return unguarded(lambda acceptor, oldest: 0)


def an_install_ends_with_an_image_that_its_group_has_passed() -> AbstractContextManager[object]:
    """B1, P1: a source must have what the group lacked when it was asked for an image first; how
    far the group has come when all is copied does not count."""
    original = install.least_of
    asked: WeakKeyDictionary[Acceptor, int | None] = WeakKeyDictionary()

    def first_asked(acceptor: Acceptor, oldest: int) -> int | None:
        return asked.setdefault(acceptor, original(acceptor, oldest))

    return unguarded(first_asked)


def an_added_group_misses_in_a_draft_that_counts_it() -> AbstractContextManager[object]:
    """B5, P5: group 0 is copied when its turn comes, and counts one that was not there when the
    groups of the checkpoint were listed."""
    original = CheckpointDraft.__init__

    def uncounted(self: CheckpointDraft, *arguments: Any) -> None:
        original(self, *arguments)
        self._counting.clear()

    return patches((CheckpointDraft, "__init__", uncounted))


class Unconfirmed:
    """A node where no majority confirms who leads."""

    def __init__(self, node: ClientService) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    async def _confirmed(self, group: int) -> Group:
        found = self._node.group(group)
        if not found.replica.state.leading:
            raise NotLeader(found.replica.state.leader)
        return found


def answered_by_who_thinks_it_leads(call: str) -> Mutation:
    """B4, P6: this read is not confirmed, and a leader that was deposed answers it."""

    def mutation() -> AbstractContextManager[object]:
        original = getattr(ClientService, call)

        async def unconfirmed(self: ClientService, *arguments: Any, **options: Any) -> Any:
            return await original(Unconfirmed(self), *arguments, **options)

        return patches((ClientService, call, unconfirmed))

    mutation.__name__ = f"{call}_is_answered_by_who_thinks_it_leads"
    return mutation


def a_record_counts_as_durable_before_its_sync() -> AbstractContextManager[object]:
    """P1: group commit tells that a flush is on the disk when it is in the page cache."""

    def told(self: WriteAheadLog) -> None:
        writer = self._writer
        writer.synced = writer.end
        self._tail = Position(writer.number, writer.synced, 0)

    return patches((WriteAheadLog, "sync", told))


def a_checkpoint_begins_where_the_log_ends() -> AbstractContextManager[object]:
    """P1: what was accepted and not applied yet lies before the place from which a start reads."""
    original = CheckpointDraft.__init__

    def at_the_end(self: CheckpointDraft, groups: Any, wal: WriteAheadLog, *more: Any) -> None:
        original(self, groups, wal, *more)
        self._start = wal.tail._replace(offset=wal.tail.offset + HEADER_BYTES)

    return patches((CheckpointDraft, "__init__", at_the_end))


def a_checkpoint_counts_before_its_name_is_durable() -> AbstractContextManager[object]:
    """P1: the directory is never synced, and the log before the checkpoint is let go of."""
    return patches((DiskFiles, "sync_directory", lambda self: None))


def a_compaction_is_not_written_down() -> AbstractContextManager[object]:
    """P1: old segments go, and the next start looks for them."""

    def forgotten(self: WriteAheadLog, compacted: Any, sizes: dict[int, int]) -> None:
        self._sizes.update(sizes)
        self._compacted = compacted

    return patches((WriteAheadLog, "commit_compaction", forgotten))


def a_compaction_leaves_a_batch_behind() -> AbstractContextManager[object]:
    """P1: the last of what is live is not copied."""
    original = compaction._copy

    def all_but_one(wal: Any, writer: Any, copies: list[Any]) -> int:
        return original(wal, writer, copies[:-1] if len(copies) > 1 else copies)

    return patches((compaction, "_copy", all_but_one))


def an_unknown_append_moves_to_a_new_session() -> AbstractContextManager[object]:
    """P2: what was sent and not answered is sent again under another session, and may be there
    twice."""
    return patches((_Entry, "maybe_applied", property(lambda self: False)))


def an_install_copies_no_batches() -> AbstractContextManager[object]:
    """P1: the machine is there, and what it says is stored is not."""

    async def nothing(self: Copier, machine: Any) -> Lack:
        return Lack([], False)

    return patches((Copier, "fill", nothing))


def restart_forgets_sessions() -> AbstractContextManager[object]:
    """P2: a machine restored from a checkpoint knows no receipts."""
    original = snapshot._unpack_queue

    def mutated(raw: Any) -> Queue:
        queue = original(raw)
        queue.sessions.clear()
        return queue

    return patches((snapshot, "_unpack_queue", mutated))


def a_checkpoint_forgets_the_known_ids() -> AbstractContextManager[object]:
    """P2: a machine restored from a checkpoint stores them again."""
    return patches((DedupTable, "unpack", lambda packed: DedupTable()))


def a_known_id_of_a_staged_message_is_not_seen() -> AbstractContextManager[object]:
    """Only ids of appended messages are remembered (P2)."""
    original = DedupTable.remember

    def mutated(self: DedupTable, *args: Any, staged: bool, **more: Any) -> None:
        if not staged:
            original(self, *args, staged=staged, **more)

    return patches((DedupTable, "remember", mutated))


def a_discarded_message_is_released() -> AbstractContextManager[object]:
    """A discard says that it took effect, and does nothing (P3)."""
    return patches((Stages, "discard", lambda self, numbers: len(numbers)))


def a_message_is_released_before_its_time() -> AbstractContextManager[object]:
    """Nobody looks at when it is due (P3)."""
    return mock.patch("store_nodes.machine.stages._releasable", return_value=True)


def a_reschedule_is_forgotten() -> AbstractContextManager[object]:
    """Answer a reschedule, and keep the old time (P3)."""
    original = Stages.reschedule

    def mutated(self: Stages, numbers: Sequence[int], dues: Sequence[int]) -> int:
        return original(self, numbers, [0] * len(numbers))

    return patches((Stages, "reschedule", mutated))


def a_counter_is_set_blindly() -> AbstractContextManager[object]:
    """Set it, whatever it was before (P1)."""

    def mutated(counters: dict[str, int], command: Any) -> CounterSet:
        counters[command.name] = command.new
        return CounterSet(command.name, command.new)

    return patches((machine, "compare_and_set", mutated))


MUTATIONS: tuple[Mutation, ...] = (
    an_install_takes_a_group_back,
    an_install_ends_with_an_image_that_its_group_has_passed,
    an_added_group_misses_in_a_draft_that_counts_it,
    *map(
        answered_by_who_thinks_it_leads,
        ("offsets", "offset_at", "queues", "staged", "staged_changes", "locate"),
    ),
    a_record_counts_as_durable_before_its_sync,
    a_checkpoint_begins_where_the_log_ends,
    a_checkpoint_counts_before_its_name_is_durable,
    a_compaction_is_not_written_down,
    a_compaction_leaves_a_batch_behind,
    an_unknown_append_moves_to_a_new_session,
    an_install_copies_no_batches,
    restart_forgets_sessions,
    a_checkpoint_forgets_the_known_ids,
    a_known_id_of_a_staged_message_is_not_seen,
    a_discarded_message_is_released,
    a_message_is_released_before_its_time,
    a_reschedule_is_forgotten,
    a_counter_is_set_blindly,
)
