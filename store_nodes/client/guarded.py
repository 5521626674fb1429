"""Asks a group's leader, through the guard if there is one."""

from __future__ import annotations

from collections.abc import Sequence

from peering.rpc.frames import Buffer
from store_nodes.client import calls
from store_nodes.client.connections import Connections
from store_nodes.client.guard import is_answer
from store_nodes.errors import Unavailable


class GuardedCalls(Connections):
    """Asks leaders for commands and reads."""

    def admits(self, group: int) -> bool:
        """Return whether a call that only the leader can answer is worth waiting for."""
        return self._guard_of is None or self._guard_of(group).admits()

    async def _ask_leader(
        self,
        group: int,
        make_head: calls.MakeHead,
        body: Sequence[Buffer] = (),
        *,
        timeout_s: float,
    ) -> calls.Answer:
        """Ask the leader as `calls.ask_leader` does; raise Unavailable if the guard refuses."""
        self.dial()
        if self._guard_of is None:
            return await calls.ask_leader(self, group, make_head, body, timeout_s=timeout_s)
        guard = self._guard_of(group)
        if not guard.admits():
            raise Unavailable(f"group {group} has not answered for a while")
        call = guard.began()
        answered: bool | None = None
        try:
            answer = await calls.ask_leader(self, group, make_head, body, timeout_s=timeout_s)
            answered = True
        except Exception as error:
            answered = is_answer(error)
            raise
        finally:
            guard.left(call, answered=answered)
        return answer
