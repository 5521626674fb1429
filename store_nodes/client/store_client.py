"""The store, as a forwarder sees it: one connection to every node, calls that find the leader.

A call ends in its result, in `NotDone` (it did not and will not take effect) or in
`OutcomeUnknown`. Nothing here waits for a single node: a silent one is suspected after 0.75 s,
dropped after 2 s, and left at once when another node says that the group has a new leader.
"""

from __future__ import annotations

from functools import partial

from store_nodes.client.appender import Appender
from store_nodes.client.commands import CommandCalls
from store_nodes.client.guard import tell_of_append
from store_nodes.client.reads import ReadCalls
from store_nodes.queue_id import QueueId


class StoreClient(CommandCalls, ReadCalls):
    """A process's client of the store nodes; use it on one event loop.

    `addresses` and `groups` come from the settings; the client learns more nodes and groups from
    the nodes. `own_node` is set for a client inside a node, which must not talk to itself. A guard
    of `guard_of` learns how its group answers, and is asked before calls to its leader.
    """

    def appender(self, group: int, queue: QueueId) -> Appender:
        """Return a new session of appends to the queue."""
        if self._guard_of is None:
            return Appender(self, group, queue)
        return Appender(self, group, queue, partial(tell_of_append, self._guard_of(group)))
