"""A hand-driven group: messages wait in a list until a test delivers, drops or reorders them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from store_nodes.commands import Reconfigure
from store_nodes.consensus.acceptor import Recovered
from store_nodes.consensus.effects import Event, LearnRecord, Record
from store_nodes.consensus.messages import Message, decode, encode
from store_nodes.consensus.replica import Replica
from store_nodes.consensus.state import ReplicaState, Timing
from store_nodes.membership import Membership

Envelope = tuple[int, int, Message]
"""(source, target, message)."""
WALL_US = 1_700_000_000_000_000


def first_membership(nodes: int) -> Membership:
    """Return a membership with the voters 1 … `nodes`."""
    return Membership.first({node: (f"node-{node}:1", "") for node in range(1, nodes + 1)})


class Bench:
    """Three replicas; disks sync at once unless held."""

    def __init__(self, nodes: int = 3, *, group: int = 0) -> None:
        self.now_us = 0
        self.wire: list[Envelope] = []
        self.chosen: dict[int, list[tuple[int, bytes]]] = {}
        self.records: dict[int, list[Record]] = {}
        self.events: dict[int, list[Event]] = {}
        self.held_disks: dict[int, list[int]] = {}
        self.wall_skew_us: dict[int, int] = {}
        voters = range(1, nodes + 1)
        self.membership = first_membership(nodes)
        self.replicas = {
            node: Replica(
                ReplicaState(
                    group,
                    node,
                    self.membership,
                    Recovered(),
                    random.Random(node),
                    now_us=0,
                    preferred=1,
                )
            )
            for node in voters
        }
        for node, replica in self.replicas.items():
            self.chosen[node], self.records[node], self.events[node] = [], [], []
            for peer in replica.state.peers:
                replica.peer_connected(0, peer)
            self.collect(node)

    def start(self, node: int, membership: Membership, **more: Any) -> Replica:
        """Start a node, in place of its last life if it had one; nothing is on its disk."""
        self.replicas[node] = Replica(
            ReplicaState(
                0,
                node,
                membership,
                more.pop("recovered", Recovered()),
                random.Random(node),
                now_us=self.now_us,
                **more,
            )
        )
        self.chosen[node], self.records[node], self.events[node] = [], [], []
        for peer in self.replicas:
            if peer != node:
                self.replicas[node].peer_connected(self.now_us, peer)
                self.replicas[peer].peer_connected(self.now_us, node)
        return self.replicas[node]

    def change(self, leader: int, node: int, role: str, **labels: str) -> int:
        """Have a leader take one step; its instance."""
        replica = self.replicas[leader]
        version = replica.state.membership.version + 1
        step = Reconfigure(version, node, role, f"node-{node}:1", labels)
        for _ in range(100):
            if replica.quiesce(self.now_us, step):
                instance = replica.propose_membership(self.now_us, step)
                self.collect(leader)
                return instance
            self.collect(leader)
            self.run(20_000)
        raise AssertionError("the group never came to rest")

    def collect(self, node: int) -> None:
        """Carry out a replica's effects."""
        replica = self.replicas[node]
        while effects := replica.take():
            self.records[node] += effects.records
            self.chosen[node] += effects.chosen
            self.events[node] += effects.events
            self.wire += [(node, to, decode(encode(message))) for to, message in effects.sends]
            if effects.records:
                if node in self.held_disks:
                    self.held_disks[node].append(effects.persist_upto)
                else:
                    replica.persisted(self.now_us, effects.persist_upto)

    def tick(self, node: int) -> None:
        wall_us = WALL_US + self.now_us + self.wall_skew_us.get(node, 0)
        self.replicas[node].tick(self.now_us, wall_us)
        self.collect(node)

    def deliver(self, wanted: Callable[[Envelope], bool] = lambda _: True) -> int:
        """Deliver the messages on the wire that are wanted; the rest are lost."""
        wire, self.wire = self.wire, []
        delivered = 0
        for envelope in wire:
            if wanted(envelope):
                self.hand(envelope)
                delivered += 1
        return delivered

    def hand(self, envelope: Envelope) -> None:
        source, target, message = envelope
        if target not in self.replicas:
            return
        self.replicas[target].receive(self.now_us, source, message)
        self.collect(target)

    def run(
        self,
        duration_us: int,
        wanted: Callable[[Envelope], bool] = lambda _: True,
        nodes: tuple[int, ...] | None = None,
    ) -> None:
        """Tick and deliver in steps of 20 ms."""
        end_us = self.now_us + duration_us
        while self.now_us < end_us:
            self.now_us += 20_000
            for node in nodes or tuple(self.replicas):
                self.tick(node)
            while self.wire:
                self.deliver(wanted)

    def elect(self, node: int = 1) -> Replica:
        """Run until `node` leads; from then on nobody is preferred."""
        for replica in self.replicas.values():
            replica.state.preferred = node
        for _ in range(500):
            self.run(20_000)
            if self.replicas[node].state.leading:
                for replica in self.replicas.values():
                    replica.state.preferred = None
                return self.replicas[node]
        raise AssertionError("nobody was elected")

    def propose(self, node: int, command: bytes, *, everywhere: bool = False) -> int:
        instance = self.replicas[node].propose(self.now_us, [command], everywhere=everywhere)
        self.collect(node)
        return instance

    def learned(self, node: int) -> list[LearnRecord]:
        return [record for record in self.records[node] if isinstance(record, LearnRecord)]


def without(node: int) -> Callable[[Envelope], bool]:
    """Return a filter that cuts one node off from the network."""
    return lambda envelope: node not in envelope[:2]


TIMING = Timing()
