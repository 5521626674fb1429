"""Keeps the connection to one node: dials again when it is lost, matches replies to requests.

Every request's callback is called exactly once: with the reply, or with None when the connection
was lost first, after which the outcome of the request is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import structlog

from peering.rpc.dialling import Address, Backoff, keep_dialling
from peering.rpc.frames import Buffer, Goodbye
from peering.tls import PeerTls
from store_nodes.transport.handshake import FIRST_RETRY_S, MOST_RETRY_S, Identity, dial
from store_nodes.wire import (
    Accepted,
    Cancel,
    Failed,
    Head,
    Leaders,
    Ping,
    Pong,
    Remote,
    Reply,
    Role,
    StoreConnection,
    Unknown,
    Watched,
    Welcome,
)

if TYPE_CHECKING:
    from store_nodes.client.connections import Connections

PING_WITHIN_S = 0.35
"""The longest silence of a node after which it is pinged."""
SUSPECT_AFTER_S = 0.75
SILENT_AFTER_S = 2.0

OnReply = Callable[[Reply | None, bytes], None]
_REPLIES: frozenset[type] = frozenset(Reply.__args__)

_log = structlog.get_logger("store_nodes.client")


class NodeLink:
    """The connection to one node, if there is one now."""

    def __init__(
        self,
        node: int,
        address: Address,
        identity: Identity,
        owner: Connections,
        *,
        tls: PeerTls | None = None,
    ) -> None:
        self.node = node
        self.generation = 0
        self.responsive = False
        """Whether the node is connected and has not left a ping unanswered for long."""
        self.last_failure = "not dialed yet"
        self._address = address
        self._identity = identity
        self._owner = owner
        self._tls = tls
        self._connection: StoreConnection | None = None
        self._requests: dict[int, OnReply] = {}
        self._streams: dict[int, OnReply] = {}
        self._last_id = 0
        self._pinged_at_s: float | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        return self._connection is not None

    def start(self) -> None:
        """Dial the node from now on until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._keep_dialing())

    async def close(self) -> None:
        """Close the connection; unanswered requests get their None."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        connection = self._connection
        if connection is not None:
            connection.close("the client is closing")
            await connection.wait_closed(1.0)

    def next_id(self) -> int:
        """Return an id for a request of this link."""
        self._last_id += 1
        return self._last_id

    def request(
        self, request_id: int, head: Head, body: Sequence[Buffer], on_reply: OnReply
    ) -> bool:
        """Send a request; return whether it was sent.

        It is not sent if the link is down or too many bytes are unsent; then `on_reply` is not
        called. `Accepted` may come to `on_reply` before the final reply.
        """
        connection = self._connection
        if connection is None or not connection.send(head, body):
            return False
        self._requests[request_id] = on_reply
        return True

    def forget(self, request_id: int) -> None:
        """Drop a request for which nobody waits any more, and tell the node."""
        if self._requests.pop(request_id, None) is not None and self._connection is not None:
            self._connection.send(Cancel(request_id))

    def open_stream(self, stream_id: int, head: Head, on_frame: OnReply) -> bool:
        """Open a stream, like a request with any number of frames; None or `Failed` is the last."""
        if self._connection is None or not self._connection.send(head):
            return False
        self._streams[stream_id] = on_frame
        return True

    def send(self, head: Head) -> bool:
        """Send a frame that has no answer."""
        return self._connection is not None and self._connection.send(head)

    def close_stream(self, stream_id: int) -> None:
        """Close a stream, which gets no more frames."""
        if self._streams.pop(stream_id, None) is not None and self._connection is not None:
            self._connection.send(Cancel(stream_id))

    def tick(self, now_s: float, own_pause_s: float, next_s: float) -> float:
        """Send a ping to a quiet node, and drop a silent one; return the time of the next tick.

        That is `next_s`, or before if the node is to be judged sooner. `own_pause_s` is the time
        for which this process itself was held up, which is no node's fault.
        """
        connection = self._connection
        if connection is None:
            return next_s
        if self._pinged_at_s is not None:
            self._pinged_at_s += own_pause_s
            waiting_s = now_s - self._pinged_at_s
            if waiting_s > SILENT_AFTER_S:
                connection.abort("silent")
                return next_s
            responsive = waiting_s < SUSPECT_AFTER_S
            self._be_responsive(responsive)
            judged_s = SUSPECT_AFTER_S if responsive else SILENT_AFTER_S
            return min(next_s, self._pinged_at_s + judged_s)
        if next_s - connection.last_frame_s > PING_WITHIN_S:
            self._pinged_at_s = now_s
            connection.send(Ping(0))
        return next_s

    # FrameHandler of the open connection.

    def opened(self, connection: StoreConnection, remote: Remote, welcome: Welcome) -> None:
        self._connection = connection
        self._pinged_at_s = None
        self.generation += 1
        self.responsive = True
        self.last_failure = ""
        self._owner.members_told(self, welcome.nodes)
        self._owner.leaders_claimed(self, welcome.leaders)
        self._owner.link_up(self)

    def frame(self, head: Head | Unknown, body: bytes) -> None:
        if self._pinged_at_s is not None:
            self._pinged_at_s = None
            self._be_responsive(True)
        kind = type(head)
        if kind in _REPLIES:
            self._reply(head, body)  # type: ignore[arg-type]
        elif isinstance(head, Leaders):
            self._owner.members_told(self, head.nodes)
            self._owner.leaders_claimed(self, head.leaders)
        elif isinstance(head, Pong):
            self._owner.leaders_claimed(self, head.leaders)
        elif isinstance(head, Goodbye):
            self._abort(f"goodbye: {head.text}")
        elif kind is not Unknown:
            self._abort(f"unexpected {kind.__name__}")

    def closed(self, reason: str) -> None:
        self._connection = None
        self.responsive = False
        self.last_failure = reason
        _log.info("store node lost", node=self.node, reason=reason)
        self._owner.link_down(self)
        waiting = [*self._requests.values(), *self._streams.values()]
        self._requests.clear()
        self._streams.clear()
        for on_reply in waiting:
            on_reply(None, b"")

    def congestion(self, congested: bool) -> None:
        pass

    def _reply(self, head: Reply, body: bytes) -> None:
        """Pass a reply to the callback of its request or its stream."""
        reply_id = head.id
        if type(head) is Accepted:
            on_reply = self._requests.get(reply_id)
        else:
            on_reply = self._requests.pop(reply_id, None)
            if on_reply is None:
                on_reply = self._streams.get(reply_id)
                if type(head) is not Watched and isinstance(head, Failed):
                    self._streams.pop(reply_id, None)
        if on_reply is not None:
            on_reply(head, body)

    def _abort(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.abort(reason)

    def _be_responsive(self, responsive: bool) -> None:
        if responsive != self.responsive:
            self.responsive = responsive
            self._owner.responsiveness_changed(self)

    async def _keep_dialing(self) -> None:
        await keep_dialling(self._dial_once, Backoff(FIRST_RETRY_S, MOST_RETRY_S))

    async def _dial_once(self) -> StoreConnection | None:
        try:
            return await dial(
                self._address, self._identity, Role.CLIENT, self.node, self, tls=self._tls
            )
        except (OSError, TimeoutError) as error:
            failure = str(error) or type(error).__name__
            if failure != self.last_failure:
                _log.warning("store node not reached", node=self.node, reason=failure)
            self.last_failure = failure
        return None
