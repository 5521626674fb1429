"""Keeps the connections of a store client: one to every node; knows each group's leader.

A client learns nodes and groups that the settings do not name from the nodes themselves. A
connected node tells the members of its groups, so a cluster that grows needs no restart of its
clients. An address in the settings counts before a learned one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar, cast

import structlog

from peering.rpc.dialling import Address
from peering.shared_secret import SharedSecret
from peering.tls import PeerTls
from store_nodes.beats import BEAT_S, until_next_s
from store_nodes.client.appender import Appender, Receipt
from store_nodes.client.guard import GuardOf
from store_nodes.client.leaders import LeaderTable, LogClock
from store_nodes.client.link import NodeLink
from store_nodes.client.watch import OnAppend, OnChange, Watch
from store_nodes.errors import StoreError, Unavailable
from store_nodes.transport.handshake import Identity
from store_nodes.wire import LeaderView, NodeView, Reply

SWEEP_EVERY_S = 0.025
TICK_EVERY_S = 0.1
IDLE_TICK_S = BEAT_S
"""Seconds between ticks of a client that has nothing under way, so that it pings all nodes at
once.
"""
MAX_FETCHES_AT_ONCE = 32

_Kind = TypeVar("_Kind")
_log = structlog.get_logger("store_nodes.client")


class Connections:
    """Keeps the connections of a store client; use it on one event loop."""

    def __init__(
        self,
        addresses: Mapping[int, Address],
        *,
        groups: Sequence[int],
        secret: SharedSecret,
        cluster_uid: bytes = b"",
        tls: PeerTls | None = None,
        own_node: int | None = None,
        guard_of: GuardOf | None = None,
    ) -> None:
        self.lost_after_accept = 0
        """Number of appends of durability leader or none that were answered early and then
        failed.
        """
        self._identity = Identity(secret=secret, cluster_uid=cluster_uid)
        self._tls = tls
        self._own_node = own_node
        self._guard_of = guard_of
        self._seeds = {node: at for node, at in addresses.items() if node != own_node}
        self._links = {node: self._new_link(node, at) for node, at in self._seeds.items()}
        self._members: dict[int, tuple[NodeView, ...]] = {}
        """The members that each connected node reported."""
        self._table = LeaderTable(groups, len(self._links))
        self._busy: dict[Appender, None] = {}
        self._watches: dict[Watch, None] = {}
        self._append_listeners: dict[bytes, list[OnAppend]] = {}
        self._changes: dict[int, asyncio.Event] = {group: asyncio.Event() for group in groups}
        self._fetching = asyncio.Semaphore(MAX_FETCHES_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        """The timer of the next sweep; None before the first node is dialed."""
        self._sweep_s = self._ticked_s = 0.0
        """Loop times of the next sweep, and of the last tick of the links."""
        self._closing: dict[asyncio.Task[None], None] = {}

    async def start(self, *, at_first_use: bool = False) -> None:
        """Dial every node, now or `at_first_use`, and whenever one is lost; return without waiting
        for any.
        """
        self._loop = asyncio.get_running_loop()
        if not at_first_use:
            self.dial()

    def dial(self) -> None:
        """Begin to dial every node, unless that was begun; each way to use a node calls it."""
        if self._sweeping is None and self._loop is not None:
            for link in self._links.values():
                link.start()
            self._ticked_s = self._loop.time()
            self._sweep_in(self._loop, SWEEP_EVERY_S)

    async def close(self) -> None:
        """Close all connections; appends under way end as unknown or not done, watches end."""
        for appender in list(self._busy):
            appender.close()
        for watch in list(self._watches):
            watch.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await asyncio.gather(*self._closing, *(link.close() for link in self._links.values()))

    async def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Wait until every group has a leader with a connection; raises Unavailable."""
        self.dial()
        try:
            async with asyncio.timeout(timeout_s):
                for group in self.groups:
                    while not self.has_leader(group):
                        await self.next_change(group).wait()
        except TimeoutError:
            missing = [group for group in self.groups if not self.has_leader(group)]
            raise Unavailable(f"no leader in groups {missing}; nodes: {self.failures()}") from None

    # The known state.

    @property
    def groups(self) -> tuple[int, ...]:
        """Every group known now, ascending; more may appear while the client lives."""
        return self._table.groups

    @property
    def nodes(self) -> dict[int, NodeView]:
        """The nodes known now: members as reported by nodes, and those of the settings."""
        told = {view.node: view for views in self._members.values() for view in views}
        for node, (host, port) in self._seeds.items():
            told.setdefault(node, NodeView(node, f"{host}:{port}"))
        return dict(sorted(told.items()))

    @property
    def connected(self) -> tuple[int, ...]:
        """The nodes to which requests can be sent now."""
        return tuple(sorted(node for node, link in self._links.items() if link.up))

    def failures(self) -> dict[int, str]:
        """Return why each of the other nodes is not connected."""
        return {node: link.last_failure for node, link in self._links.items() if not link.up}

    def has_leader(self, group: int) -> bool:
        """Return whether a request to the group would be sent at once, to a node that answers."""
        link = self.leader_link(group)
        return link is not None and link.responsive

    def leader(self, group: int) -> int | None:
        """Return the leader of a group, as far as is known."""
        return self._table.leader(group)

    def log_time_us(self, group: int) -> int:
        """Return the group's log time now, as estimated from its leader's readings."""
        return self._table.clock(group).now_us()

    def watch(self, group: int, on_change: OnChange, on_append: OnAppend | None = None) -> Watch:
        """Open a stream of changes of the queues added to it; see `Watch`."""
        self.dial()
        watch = Watch(self, group, on_change, on_append)
        self._watches[watch] = None
        watch.kick()
        return watch

    # Calls of links, appenders and watches.

    def leader_link(self, group: int) -> NodeLink | None:
        """Return the connection to the group's leader, if both are known and up."""
        node = self._table.leader(group)
        link = self._links.get(node) if node is not None else None
        return link if link is not None and link.up else None

    def replica_links(self, group: int) -> list[NodeLink]:
        """Return the open connections, the best one to ask for a group first."""
        leader = self.leader_link(group)
        up = [link for link in self._links.values() if link.up]
        return sorted(up, key=lambda link: (not link.responsive, link is not leader))

    def node_link(self, node: int) -> NodeLink | None:
        """Return the connection to this node, up or down; None for an unknown one."""
        return self._links.get(node)

    def clock(self, group: int) -> LogClock:
        """Return the group's log time."""
        return self._table.clock(group)

    def now_s(self) -> float:
        """Return the time of the loop's clock."""
        return cast(asyncio.AbstractEventLoop, self._loop).time()

    def busy(self, appender: Appender) -> None:
        """Wake an appender until it is idle: `kick` on a new leader, `sweep` every few ms."""
        self.dial()
        if not self._busy:
            self._sweep_soon()
        self._busy[appender] = None

    def drop_watch(self, watch: Watch) -> None:
        """Forget a closed watch."""
        self._watches.pop(watch, None)

    def tell_of_appends(self, queue: bytes, on_append: OnAppend) -> None:
        """Call `on_append` with each append of this client that is stored in the queue."""
        self._append_listeners.setdefault(queue, []).append(on_append)

    def tell_no_more(self, queue: bytes, on_append: OnAppend) -> None:
        """Undo one `tell_of_appends`."""
        listeners = self._append_listeners[queue]
        listeners.remove(on_append)
        if not listeners:
            del self._append_listeners[queue]

    def appended(self, queue: bytes, receipt: Receipt, batch: bytes) -> None:
        """Tell the listeners of a queue of an append that is stored in it."""
        for on_append in self._append_listeners.get(queue, ()):
            on_append(queue, receipt, batch)

    def next_change(self, group: int) -> asyncio.Event:
        """Return an event that is set when the group's leader, or the connection to it, changes."""
        return self._changes.setdefault(group, asyncio.Event())

    def refused_by(self, link: NodeLink, group: int, hint: int | None) -> None:
        """Learn that a node does not lead; may call `kick` of appenders and watches."""
        self._changed(self._table.refused(link.node, group, hint))

    def link_up(self, link: NodeLink) -> None:
        """Learn that requests can be sent to a node; the link's `generation` is a new one."""
        self._changed([g for g in self.groups if self._table.leader(g) == link.node])

    def link_down(self, link: NodeLink) -> None:
        """Learn that a connection is lost, before the callbacks of its requests get their None."""
        led = [g for g in self.groups if self._table.leader(g) == link.node]
        self._members.pop(link.node, None)
        self._changed({*led, *self._table.disconnected(link.node)})

    def leaders_claimed(self, link: NodeLink, views: Iterable[LeaderView]) -> None:
        """Note a node's knowledge of the leaders."""
        self._changed(self._table.claimed(link.node, views))

    def members_told(self, link: NodeLink, views: Sequence[NodeView]) -> None:
        """Note the members of a node's groups; an empty list means nothing new."""
        if not views:
            return
        self._members[link.node] = tuple(views)
        known = self.nodes
        for node, view in known.items():
            if node not in self._links and node != self._own_node:
                self._learn(node, view.address)
        for node in [node for node in self._links if node not in known]:
            if not self._links[node].up:
                self._forget(node)
        self._table.expect_nodes(len(self._links))

    def responsiveness_changed(self, link: NodeLink) -> None:
        """Learn that a node does not answer for a moment, or answers again."""
        self._changed([g for g in self.groups if self._table.leader(g) == link.node])

    # Inside.

    def _new_link(self, node: int, address: Address) -> NodeLink:
        return NodeLink(node, address, self._identity, self, tls=self._tls)

    def _learn(self, node: int, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            return
        _log.info("store node learned", node=node, address=address)
        self._links[node] = self._new_link(node, (host, int(port)))
        if self._sweeping is not None:
            self._links[node].start()

    def _forget(self, node: int) -> None:
        """Forget a learned node that is no member any more and is down."""
        _log.info("store node forgotten", node=node)
        closing = asyncio.ensure_future(self._links.pop(node).close())
        self._closing[closing] = None
        closing.add_done_callback(lambda task: self._closing.pop(task, None))

    def _changed(self, groups: Iterable[int]) -> None:
        for group in groups:
            event = self._changes.get(group)
            self._changes[group] = asyncio.Event()
            if event is not None:
                event.set()
            if self._guard_of is not None and self.has_leader(group):
                self._guard_of(group).has_leader()
            for appender in [a for a in self._busy if a.group == group]:
                appender.kick()
            for watch in [w for w in self._watches if w.group == group]:
                watch.kick()

    def _sweep_in(self, loop: asyncio.AbstractEventLoop, pause_s: float) -> None:
        self._sweep_s = loop.time() + pause_s
        self._sweeping = loop.call_at(self._sweep_s, self._sweep, loop)

    def _sweep_soon(self) -> None:
        """Set the timer as for a busy client, because that of an idle one may be too late."""
        loop = self._loop
        if loop is None or self._sweeping is None or self._sweeping.cancelled():
            return  # not dialed yet, or closed
        if self._sweep_s > loop.time() + SWEEP_EVERY_S:
            self._sweeping.cancel()
            self._sweep_in(loop, SWEEP_EVERY_S)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make a sweep, and set the timer of the next sweep even if an error ends this one."""
        pause_s = TICK_EVERY_S
        try:
            pause_s = self._sweep_once(loop.time())
        finally:
            self._sweep_in(loop, SWEEP_EVERY_S if self._busy else pause_s)

    def _sweep_once(self, now_s: float) -> float:
        """Handle deadlines, retries and pings; return the seconds until the next sweep.

        There are a few dozen sweeps a second while something is under way, else one when a link
        needs it.
        """
        own_pause_s = max(0.0, now_s - self._sweep_s - 3 * SWEEP_EVERY_S)
        for appender in list(self._busy):
            appender.sweep(now_s)
            if appender.idle:
                self._busy.pop(appender, None)
        # The event loop counts in milliseconds, and may call a timer a little early.
        due = now_s - self._ticked_s >= TICK_EVERY_S - SWEEP_EVERY_S / 2
        if due or own_pause_s or not self._busy:
            return self._tick(now_s, own_pause_s)
        return SWEEP_EVERY_S

    def _tick(self, now_s: float, own_pause_s: float) -> float:
        """Tick the links, and have watches follow; return the seconds until the next tick."""
        self._ticked_s = now_s
        for watch in list(self._watches):
            watch.kick()
        waits = self._busy or not all(watch.following for watch in self._watches)
        latest_s = now_s + (TICK_EVERY_S if waits else until_next_s(now_s, IDLE_TICK_S))
        next_s = latest_s
        for link in list(self._links.values()):
            next_s = min(next_s, link.tick(now_s, own_pause_s, latest_s))
        return max(SWEEP_EVERY_S, next_s - now_s)


def expect(reply: Reply, kind: type[_Kind]) -> _Kind:
    """Return a reply if it is of the kind that answers the request, else raise StoreError."""
    if not isinstance(reply, kind):
        raise StoreError(f"the node answered {type(reply).__name__}, not {kind.__name__}")
    return reply
