"""Streams the queue changes of one group; follows its leader and survives reconnects.

Its events are hints, each the latest state of a queue. After a reconnect the node tells the state
of every watched queue again, which makes missed ones harmless.

A watch may also take what this client itself appends to its queues, as soon as the log has answered
that it is stored: then nobody has to fetch it. That is a hint, too, and may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from store_nodes.client.link import NodeLink
from store_nodes.errors import NotLeader
from store_nodes.queue_id import QueueId
from store_nodes.transport import failures
from store_nodes.wire import Failed, QueueOffsets, Reply, Watched, WatchEdit
from store_nodes.wire import Watch as OpenWatch

if TYPE_CHECKING:
    from store_nodes.client.appender import Receipt
    from store_nodes.client.connections import Connections

OnChange = Callable[[Sequence[QueueOffsets]], None]
OnAppend = Callable[[bytes, "Receipt", bytes], None]
"""Takes a queue, the receipt of an append of this client to it, and the record batch; it never
fails.
"""


class Watch:
    """The stream of one group; made by `StoreClient.watch`."""

    def __init__(
        self,
        owner: Connections,
        group: int,
        on_change: OnChange,
        on_append: OnAppend | None = None,
    ) -> None:
        self.group = group
        self._owner = owner
        self._on_change = on_change
        self._on_append = on_append
        self._queues: set[bytes] = set()
        self._link: NodeLink | None = None
        self._link_generation = 0
        self._stream_id = 0
        self._closed = False

    @property
    def following(self) -> bool:
        """Whether a node sends changes now."""
        return self._link is not None

    def add(self, queue: QueueId) -> None:
        """Watch one more queue; its present state arrives soon, once it exists."""
        raw = queue.pack()
        if raw not in self._queues and not self._closed:
            self._queues.add(raw)
            if self._on_append is not None:
                self._owner.tell_of_appends(raw, self._on_append)
            if self._link is not None:
                self._link.send(WatchEdit(self._stream_id, (raw,), ()))

    def remove(self, queue: QueueId) -> None:
        """Stop watching a queue; changes under way may still arrive."""
        raw = queue.pack()
        if raw in self._queues:
            self._queues.discard(raw)
            self._stop_telling(raw)
            if self._link is not None:
                self._link.send(WatchEdit(self._stream_id, (), (raw,)))

    def close(self) -> None:
        """End the watch; neither `on_change` nor `on_append` is called again."""
        if not self._closed:
            self._closed = True
            for raw in self._queues:
                self._stop_telling(raw)
            self._leave()
            self._owner.drop_watch(self)

    def kick(self) -> None:
        """Follow the leader or its connection if it is another; called on changes and now and
        then.
        """
        link = self._owner.leader_link(self.group)
        if link is None or self._closed:
            return
        if link is self._link and link.generation == self._link_generation:
            return
        self._leave()
        stream_id = link.next_id()
        if not link.open_stream(stream_id, OpenWatch(stream_id, self.group), self._stream(link)):
            return
        self._link, self._link_generation, self._stream_id = link, link.generation, stream_id
        if self._queues:
            link.send(WatchEdit(stream_id, tuple(self._queues), ()))

    def _stop_telling(self, queue: bytes) -> None:
        if self._on_append is not None:
            self._owner.tell_no_more(queue, self._on_append)

    def _leave(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close_stream(self._stream_id)

    def _stream(self, link: NodeLink) -> Callable[[Reply | None, bytes], None]:
        generation = link.generation

        def on_frame(reply: Reply | None, body: bytes) -> None:
            """Report changes of watched queues; any other reply ends the stream."""
            if self._closed or link is not self._link or generation != self._link_generation:
                return
            if isinstance(reply, Watched):
                self._on_change([q for q in reply.queues if q.queue in self._queues])
                return
            self._link = None
            if isinstance(reply, Failed):
                error = failures.decode(reply)
                if isinstance(error, NotLeader):
                    self._owner.refused_by(link, self.group, error.hint)

        return on_frame
