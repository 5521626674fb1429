"""The commands a client gives a group, other than appends; each ends done, not done or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from store_nodes import commands
from store_nodes.client.connections import expect
from store_nodes.client.guarded import GuardedCalls
from store_nodes.errors import Conflict
from store_nodes.queue_id import QueueId
from store_nodes.wire import Command, Durability, Finished, Released, Reply


class CommandCalls(GuardedCalls):
    """Commands by name. Those with numbers of staged messages are no-ops the second time."""

    async def create(
        self,
        group: int,
        queue: QueueId,
        base: int = 0,
        meta: bytes = b"",
        *,
        timeout_s: float = 5.0,
    ) -> None:
        """Make a queue; a second time is no error. Raises QueueExists for another base or meta."""
        await self._command(group, commands.Create(queue.pack(), base, meta), timeout_s)

    async def seal(
        self,
        group: int,
        queue: QueueId,
        successors: Sequence[tuple[int, QueueId]] = (),
        *,
        timeout_s: float = 5.0,
    ) -> int:
        """End a queue; its end offset."""
        packed = tuple((of_group, successor.pack()) for of_group, successor in successors)
        return await self._command(group, commands.Seal(queue.pack(), packed), timeout_s)

    async def delete(self, group: int, queue: QueueId, *, timeout_s: float = 5.0) -> None:
        """Forget a queue; of one that is deleted already, or never was, no error."""
        await self._command(group, commands.Delete(queue.pack()), timeout_s)

    async def truncate(
        self,
        group: int,
        queue: QueueId,
        upto: int,
        keep: Iterable[int] = (),
        *,
        timeout_s: float = 5.0,
    ) -> int:
        """Drop the offsets below `upto` but `keep`; the first offset now."""
        command = commands.Truncate(queue.pack(), upto, tuple(keep))
        return await self._command(group, command, timeout_s)

    async def release(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float = 5.0
    ) -> list[int | None]:
        """Give staged messages their offsets, in the order named. Per number: its offset (also of
        one released before), None where it was discarded or is truncated, −1 where it is not due
        yet. Raises QueueSealed."""
        command = commands.Release(queue.pack(), tuple(numbers))
        released = expect(await self._reply(group, command, timeout_s), Released)
        self.clock(group).at_least(released.log_time_us)
        return list(released.offsets)

    async def reschedule(
        self,
        group: int,
        queue: QueueId,
        numbers: Sequence[int],
        due_us: Sequence[int],
        *,
        timeout_s: float = 5.0,
    ) -> int:
        """Move the due times (µs of log time) of staged messages; how many were staged."""
        command = commands.Reschedule(queue.pack(), tuple(numbers), tuple(due_us))
        return await self._command(group, command, timeout_s)

    async def discard(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float = 5.0
    ) -> int:
        """Drop staged messages; how many were staged. After a lost answer the count may be of the
        second transmission: `locate` says what became of a message."""
        return await self._command(group, commands.Discard(queue.pack(), tuple(numbers)), timeout_s)

    async def compare_and_set(
        self, group: int, name: str, expected: int, new: int, *, timeout_s: float = 5.0
    ) -> int:
        """Set a counter that is `expected` (0: never set) to `new`; raises Conflict with what it
        is, or OutcomeUnknown."""
        return await self._command(group, commands.CompareAndSet(name, expected, new), timeout_s)

    async def counter(self, group: int, name: str, *, timeout_s: float = 5.0) -> int:
        """A counter's value, decided by the log; 0 if it was never set."""
        try:
            return await self.compare_and_set(group, name, 0, 0, timeout_s=timeout_s)
        except Conflict as conflict:
            return conflict.current

    async def reconfigure(
        self, group: int, step: commands.Reconfigure, *, timeout_s: float = 30.0
    ) -> int:
        """One step of membership; its version. Raises Conflict (another version), NotAllowed."""
        return await self._command(group, step, timeout_s)

    async def transfer(self, group: int, node: int, *, timeout_s: float = 5.0) -> None:
        """Wish that `node` leads the group; 0: whoever the balance says."""
        await self._command(group, commands.Transfer(node), timeout_s)

    async def take_checkpoint(
        self, group: int, reason: str = "asked for", *, timeout_s: float = 5.0
    ) -> None:
        """Every node writes a checkpoint when it applies this."""
        await self._command(group, commands.Checkpoint(reason), timeout_s)

    async def _command(self, group: int, command: commands.ControlCommand, timeout_s: float) -> int:
        finished = expect(await self._reply(group, command, timeout_s), Finished)
        self.clock(group).at_least(finished.log_time_us)
        return finished.value

    async def _reply(self, group: int, command: commands.ControlCommand, timeout_s: float) -> Reply:
        reply, _ = await self._ask_leader(
            group,
            lambda request_id, left_ms: Command(request_id, group, Durability.QUORUM, left_ms),
            (commands.encode(command),),
            timeout_s=timeout_s,
        )
        return reply
