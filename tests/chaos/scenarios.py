"""The faults of an installation under load, each scenario with its measurements.

All of them check the whole history at the end; the caller judges how long anything took.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from harness.cluster import NODES, ChaosCluster, ClusterFailed
from store_nodes.queue_id import QueueId
from tests.chaos.consumer import Consumer
from tests.chaos.disks import NodeDisks
from tests.chaos.history import Drained, History, Lapse, Logs, Publish, Read, Subscription
from tests.chaos.log_reader import LogReader
from tests.chaos.porcupine import judge
from tests.chaos.read_log import queues_of, read_topic
from tests.chaos.rules import Verdict, check, check_deliveries
from tests.chaos.senders import PADDING, HttpSender, StoreSender
from tests.chaos.workload import Workload, failed, resume_gap_s

PARTITIONS = 4
ACK_DEADLINE_S = 5
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FaultResult:
    """One fault: who, and what the publishers noticed."""

    node: int
    published: int
    """Unkeyed, in the window."""
    failed: int
    """The number of those without a 201."""
    reasons: dict[str, int]
    keyed_gap_s: float
    """The longest that a key waited between two acknowledgements."""
    caught_up_s: float = 0.0
    """Seconds from its restart until it had applied all that the others had then."""


class Torture:
    """A topic on a cluster, its publishers, and their history."""

    def __init__(
        self,
        cluster: ChaosCluster,
        workload: Workload,
        topic_uid: bytes,
        groups: list[int],
        consumer: Consumer | None = None,
        reader: LogReader | None = None,
    ) -> None:
        self.cluster = cluster
        self.topic = workload.topic
        self.workload = workload
        self.consumer = consumer
        self._reader = reader
        self._observed: list[Read | Drained] = []
        """The reads of the times that the history was judged before."""
        self.topic_uid = topic_uid
        self._groups = groups
        """The groups of the topic's partitions, in order."""

    @classmethod
    async def over_http(
        cls, cluster: ChaosCluster, topic: str, *, per_second: float = 500.0, keys: int = 8
    ) -> Torture:
        """Make the topic and learn where its partitions are; nothing is published yet but one
        message, the first of the history. From here on a subscription is consumed, and the
        partitions are read."""
        # Nothing is truncated: the history is held against the whole log.
        spec = {"name": topic, "partitions": PARTITIONS, "retention": {"mode": "retain"}}
        await _create(cluster, "/topics", spec)
        subscription = {"name": topic, "start": "earliest", "ack_deadline_seconds": ACK_DEADLINE_S}
        await _create(cluster, f"/topics/{topic}/subscriptions", subscription)
        sender = HttpSender(cluster.http_port, cluster.token, topic)
        workload = Workload(sender, topic, per_second=per_second, keys=keys)
        await workload.publish_one()
        client = cluster.store_client()
        await client.start()
        try:
            await client.wait_ready()
            queues = await queues_of(client, sender.topic_uid)
        finally:
            await client.close()
        groups = [group for _, (group, _) in sorted(queues.items())]
        consumer = Consumer(cluster.http_port, cluster.token, topic, subscription=topic)
        consumer.start()
        reader = LogReader(cluster.http_port, cluster.token, topic, PARTITIONS)
        reader.start()
        return cls(cluster, workload, sender.topic_uid, groups, consumer, reader)

    @classmethod
    async def on_store(
        cls,
        cluster: ChaosCluster,
        *,
        per_second: float = 500.0,
        keys: int = 8,
        padding: str = PADDING,
        partitions: int = PARTITIONS,
    ) -> Torture:
        """Make a torture of the store nodes alone, each partition in a group of its own.

        `padding` makes a message long.
        """
        topic_uid, groups = secrets.token_bytes(16), list(range(partitions))
        client = cluster.store_client()
        await client.start()
        await client.wait_ready()
        for partition, group in enumerate(groups):
            await client.create(group, QueueId(topic_uid, partition))
        sender = StoreSender(client, topic_uid, groups, padding)
        workload = Workload(sender, "store", per_second=per_second, keys=keys)
        return cls(cluster, workload, topic_uid, groups)

    @property
    def partitions(self) -> int:
        """Return how many partitions it began with; they are numbered from 0."""
        return len(self._groups)

    async def leader_of(self, partition: int) -> int:
        """Return the node that leads the partition's group now, as most nodes say."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            claims = [
                status["groups"][self._groups[partition]]["leader"]
                for status in (await self.cluster.statuses()).values()
                if "groups" in status
            ]
            for node in sorted(set(claims) - {None}):
                if claims.count(node) >= 2:
                    return node
            await asyncio.sleep(0.1)
        raise ClusterFailed(f"partition {partition} has no leader")

    async def cut_power(
        self, partition: int, disks: NodeDisks, *, window_s: float, before_s: float = 2.0
    ) -> FaultResult:
        """Cut the power of the leader of a partition under load; a second later it is back."""
        node = await self.leader_of(partition)
        start = time.monotonic()
        await asyncio.sleep(before_s)
        self.cluster.freeze_nodes([node])
        disks.cut([node])
        self.cluster.kill_node(node)
        cut = time.monotonic()
        await asyncio.sleep(1.0)
        disks.remount([node])
        self.cluster.start_node(node)
        caught_up_s = await self.until_caught_up(node)
        await asyncio.sleep(max(0.0, start + window_s - time.monotonic()))
        return await self._result(node, start, window_s, cut, caught_up_s)

    async def cut_all_power(self, disks: NodeDisks, *, load_s: float) -> None:
        """Cut the power of all store nodes in one step, and start them while publishing goes on."""
        self.workload.start()
        await asyncio.sleep(load_s)
        self.cluster.freeze_nodes(NODES)
        disks.cut()
        for node in NODES:
            self.cluster.kill_node(node)
        disks.remount()
        for node in NODES:
            self.cluster.start_node(node)
        await asyncio.sleep(load_s)
        await self.workload.stop()

    async def kill(
        self, partition: int, *, window_s: float, before_s: float = 2.0, down_s: float = 1.0
    ) -> FaultResult:
        """Send SIGKILL to the leader of a partition under load; it is started again after
        `down_s`.
        """
        node = await self.leader_of(partition)
        start = time.monotonic()
        await asyncio.sleep(before_s)
        self.cluster.kill_node(node)
        killed = time.monotonic()
        await asyncio.sleep(down_s)
        self.cluster.start_node(node)
        caught_up_s = await self.until_caught_up(node)
        await asyncio.sleep(max(0.0, start + window_s - time.monotonic()))
        return await self._result(node, start, window_s, killed, caught_up_s)

    async def hang(
        self, partition: int, *, window_s: float, hang_s: float = 5.0, before_s: float = 1.0
    ) -> FaultResult:
        """Send SIGSTOP to the leader of a partition under load, SIGCONT after `hang_s`."""
        node = await self.leader_of(partition)
        start = time.monotonic()
        await asyncio.sleep(before_s)
        self.cluster.pause_node(node)
        paused = time.monotonic()
        await asyncio.sleep(hang_s)
        self.cluster.resume_node(node)
        caught_up_s = await self.until_caught_up(node)
        await asyncio.sleep(max(0.0, start + window_s - time.monotonic()))
        return await self._result(node, start, window_s, paused, caught_up_s)

    async def _result(
        self, node: int, start: float, window_s: float, fault: float, caught_up_s: float
    ) -> FaultResult:
        window = self.workload.between(start, start + window_s)
        await self.workload.answered(window)
        unkeyed = [publish for publish in window if publish.key is None]
        bad = failed(unkeyed)
        reasons: dict[str, int] = {}
        for publish in bad:
            reasons[publish.reason] = reasons.get(publish.reason, 0) + 1
        around = self.workload.between(start - 1, time.monotonic())
        gap = resume_gap_s(around, fault, start + window_s)
        return FaultResult(node, len(unkeyed), len(bad), reasons, gap, caught_up_s)

    async def until_caught_up(self, node: int, timeout_s: float = 60.0) -> float:
        """Wait until the node has applied, in every group, all that any node had when this
        was called.
        """
        began = time.monotonic()
        goal: dict[int, int] | None = None
        last: object = None
        while time.monotonic() - began < timeout_s:
            statuses = await self.cluster.statuses()
            if goal is None:
                goal = _furthest(statuses)
            last = statuses[node]
            if "groups" in statuses[node]:
                applied = {group["group"]: group["applied"] for group in statuses[node]["groups"]}
                if all(applied[group] >= at for group, at in goal.items()):
                    return time.monotonic() - began
            await asyncio.sleep(0.1)
        raise ClusterFailed(
            f"node {node} did not catch up in {timeout_s:.0f} s: {last}\n"
            f"{self.cluster.tail(f'node-{node}')}"
        )

    async def restart_server(self, *, load_s: float, kindly: bool) -> None:
        """Send SIGKILL to the server under load, or SIGTERM, and start it again."""
        self.workload.start()
        await asyncio.sleep(load_s)
        if kindly:
            status = await asyncio.to_thread(self.cluster.stop_server)
            assert status == 0, f"the server left with {status}\n{self.cluster.tail('serve')}"
        else:
            self.cluster.kill_server()
        self.cluster.start_server()
        await self.cluster.until_ready()
        await asyncio.sleep(load_s)

    async def lose_postgres(self, *, load_s: float, down_s: float) -> list[Publish]:
        """Send SIGKILL to Postgres under load and start it again; returns the messages
        published meanwhile.
        """
        self.workload.start()
        await asyncio.sleep(load_s)
        self.cluster.kill_postgres()
        killed = time.monotonic()
        await asyncio.sleep(down_s)
        meanwhile = self.workload.between(killed, time.monotonic())
        await self.workload.answered(meanwhile)
        await self.cluster.start_postgres()
        await asyncio.sleep(load_s)
        return meanwhile

    async def kill_everything(self, *, load_s: float) -> None:
        """Send SIGKILL to all processes under load, then start them again; publishing goes
        on after.
        """
        self.workload.start()
        await asyncio.sleep(load_s)
        self.cluster.kill_everything()
        await self.workload.stop()
        await self.cluster.start()

    async def verify(
        self, *, nodes: Iterable[int] | None = None, acks_forgotten: bool = False
    ) -> Verdict:
        """Stop publishing, wait until the replicas (or these) agree, read the log, and hold the
        history against our rules and against porcupine's models. Raises AssertionError when one is
        broken; the history is kept then. `acks_forgotten`: what was acked may have come again, for
        Postgres was restored from a backup."""
        await self.workload.stop()
        if self._reader is not None:
            await self._reader.stop()
        await self.cluster.until_replicas_agree(nodes=nodes)
        logs = await self._read_drained()
        if self._reader is not None:
            self._reader.start()
        history = self._recorded(deliveries=not acks_forgotten)
        with history.kept() as path:
            verdict = self._check(logs, acks_forgotten=acks_forgotten)
            await asyncio.to_thread(judge, path)
        if self.consumer is not None:
            await self._require_balanced()
        return verdict

    async def _read_drained(self) -> Logs:
        """Return whole logs of which the consumer, if there is one, has acked everything.

        A publish that was given up may be stored after a first read, and be delivered: the logs
        are read again until nothing was added while the consumer drained them.
        """
        length = -1
        while True:
            sent_s = time.monotonic()
            logs = await read_topic(self.cluster, self.topic_uid)
            whole = History(self.topic)
            whole.add_logs(self.topic, logs, sent_s, time.monotonic())
            self._observed += whole.of(Read)
            before, length = length, sum(len(log) for log in logs.values())
            if self.consumer is None:
                return logs
            if length != before:
                await self.consumer.until_acked(length)
                self._observed.append(Drained(self.topic, time.monotonic()))
            if length == before or not any(each.abandoned for each in self.workload.history):
                return logs

    def _recorded(self, *, deliveries: bool) -> History:
        """Return all that was sent and answered until now."""
        history = History(self.topic, self.workload.history)
        history.add(*self._observed, *(self._reader.reads if self._reader is not None else ()))
        if self.consumer is not None and deliveries:
            history.add(
                Subscription(self.topic, self.topic, "at_least_once", ACK_DEADLINE_S),
                *(Lapse(at_s) for at_s in self.cluster.lapses),
                *self.consumer.deliveries,
            )
        return history

    def _check(self, logs: Logs, *, acks_forgotten: bool) -> Verdict:
        verdict = check(self.workload.history, logs)
        verdict.require()
        assert verdict.acked > 0
        if self.consumer is not None:
            delivered = check_deliveries(list(self.consumer.deliveries), logs)
            verdict.deliveries = len(self.consumer.deliveries)
            if not acks_forgotten:
                delivered.require()
        return verdict

    async def _require_balanced(self) -> None:
        """The books of the subscription: what was read is settled or pending, each offset once."""
        path = f"/subscriptions/{self.topic}/reconciliation"
        status, answer = await self.cluster.call("GET", path)
        assert status == 200, answer
        assert json.loads(answer)["balanced"], answer

    async def __aenter__(self) -> Torture:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.workload.cancel()
        if self.consumer is not None:
            self.consumer.cancel()
        await self.workload.stop()
        if self.consumer is not None:
            await self.consumer.stop()
        if self._reader is not None:
            await self._reader.stop()


async def _create(cluster: ChaosCluster, path: str, what: dict[str, object]) -> None:
    status, answer = await cluster.call("POST", path, json.dumps(what).encode())
    if status != 201:
        raise ClusterFailed(f"POST {path}: {status} {answer!r}")


def _furthest(statuses: dict[int, dict[str, object]]) -> dict[int, int]:
    goal: dict[int, int] = {}
    for status in statuses.values():
        groups = status.get("groups", [])
        for group in msgspec.convert(groups, list[dict[str, object]]):
            number, applied = int(str(group["group"])), int(str(group["applied"]))
            goal[number] = max(goal.get(number, 0), applied)
    return goal
