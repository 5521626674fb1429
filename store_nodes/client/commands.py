"""The commands that a client gives a group, besides appends; each ends done, not done or
unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from store_nodes import commands
from store_nodes.client.connections import expect
from store_nodes.client.guarded import GuardedCalls
from store_nodes.errors import Conflict
from store_nodes.queue_id import QueueId
from store_nodes.wire import Command, Durability, Finished, Released, Reply


class CommandCalls(GuardedCalls):
    """Commands by name; those with numbers of staged messages change nothing the second time."""

    async def create(
        self,
        group: int,
        queue: QueueId,
        base: int = 0,
        meta: bytes = b"",
        *,
        timeout_s: float = 5.0,
    ) -> None:
        """Create a queue; repeating it succeeds. Raises QueueExists for another base or meta."""
        await self._command(group, commands.Create(queue.pack(), base, meta), timeout_s)

    async def seal(
        self,
        group: int,
        queue: QueueId,
        successors: Sequence[tuple[int, QueueId]] = (),
        *,
        timeout_s: float = 5.0,
    ) -> int:
        """End a queue; return its end offset."""
        packed = tuple((of_group, successor.pack()) for of_group, successor in successors)
        return await self._command(group, commands.Seal(queue.pack(), packed), timeout_s)

    async def delete(self, group: int, queue: QueueId, *, timeout_s: float = 5.0) -> None:
        """Forget a queue; it succeeds for one that is deleted already or never existed."""
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
        """Drop the offsets below `upto` except `keep`; return the first offset now."""
        command = commands.Truncate(queue.pack(), upto, tuple(keep))
        return await self._command(group, command, timeout_s)

    async def release(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float = 5.0
    ) -> list[int | None]:
        """Give staged messages their offsets, in the order of their numbers here.

        Raises QueueSealed.

        Return for each number its offset (also for one released before), None if it is discarded or
        truncated, −1 if it is not due yet.
        """
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
        """Change the due times (µs of log time) of staged messages; return how many were staged."""
        command = commands.Reschedule(queue.pack(), tuple(numbers), tuple(due_us))
        return await self._command(group, command, timeout_s)

    async def discard(
        self, group: int, queue: QueueId, numbers: Sequence[int], *, timeout_s: float = 5.0
    ) -> int:
        """Drop staged messages; return how many were staged.

        After a lost answer the count may be that of the second transmission: `locate` returns the
        state of a message.
        """
        return await self._command(group, commands.Discard(queue.pack(), tuple(numbers)), timeout_s)

    async def compare_and_set(
        self, group: int, name: str, expected: int, new: int, *, timeout_s: float = 5.0
    ) -> int:
        """Set a counter that is `expected` (0: never set) to `new`.

        Raises Conflict with its present value, or OutcomeUnknown.
        """
        return await self._command(group, commands.CompareAndSet(name, expected, new), timeout_s)

    async def counter(self, group: int, name: str, *, timeout_s: float = 5.0) -> int:
        """Return a counter's value, decided by the log; 0 if it was never set."""
        try:
            return await self.compare_and_set(group, name, 0, 0, timeout_s=timeout_s)
        except Conflict as conflict:
            return conflict.current

    async def reconfigure(
        self, group: int, step: commands.Reconfigure, *, timeout_s: float = 30.0
    ) -> int:
        """Change the membership by one step; return its version.

        Raises Conflict (another version) or NotAllowed.
        """
        return await self._command(group, step, timeout_s)

    async def transfer(self, group: int, node: int, *, timeout_s: float = 5.0) -> None:
        """Name the node that should lead the group; 0 leaves it to the balance."""
        await self._command(group, commands.Transfer(node), timeout_s)

    async def take_checkpoint(
        self, group: int, reason: str = "asked for", *, timeout_s: float = 5.0
    ) -> None:
        """Have every node write a checkpoint when it applies this."""
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
