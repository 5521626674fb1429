"""Pushes the messages of one subscription that are owned here.

An engine is a consumer in the hub's wait list, as a stream is, that never leaves it: it is asked
for its want each time something may be ready, and wants as much as may be sent. The messages that
it takes are leased until a request and the ack deadline are over, from then on; a message whose
lease would end sooner is returned unsent.

Invariants:
- Nothing is leased while the endpoint is shut, so nothing that was not sent counts as an attempt;
  messages that were leased ahead are returned, uncounted.
- Exactly once: the lease is committed before the request leaves. At most once: the ack is, so a
  request that fails is not repeated. Otherwise a 2xx settles a message.
- The number of messages that are out, or that an endpoint took without a known commit, is bounded,
  also by messages that are leased already: `MAX_UNCOMMITTED`, or as many as `max_concurrency`
  requests carry, less one, and the messages of `max_concurrency` requests. A crash repeats at most
  that number.
- One request at a time has a message, and with `ordered` one message of a key is out (the hub's
  doing).

No task is paid for each message: one that has sent its request goes on with the next.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import structlog

from edge.problem import Problem
from edge.quota import NO_LIMITS, PUSH_DELIVERIES, Usage
from metadata.errors import MetadataError
from metadata.subscriptions.push_config import BATCHING, PushConfig
from metadata.types import Subscription
from openapi.flow import Throttle
from openapi.push import PushStatus
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.sending import commit_to_send
from subscribe_forwarder.delivery.wait_list import Delivery, Want
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.push import metrics
from subscribe_forwarder.push.attempts import AttemptLog
from subscribe_forwarder.push.endpoint import Endpoint
from subscribe_forwarder.push.endpoints import Endpoints
from subscribe_forwarder.push.limiter import Load
from subscribe_forwarder.push.outcome_commits import Item, Late, OutcomeCommits
from subscribe_forwarder.push.outgoing import Outgoing
from subscribe_forwarder.push.requests import Requests, Unsendable
from subscribe_forwarder.push.sender import Sender
from subscribe_forwarder.push.spans import PushSpans
from subscribe_forwarder.push.verdict import Verdict, judge

MAX_OUT_BYTES = 32 * 1024 * 1024
"""The limit of bytes of messages that are leased at once; one is sent whatever its size."""
MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""The limit of bytes of a request of many messages."""
MAX_UNCOMMITTED = 64
"""Messages taken by the endpoint and not committed with which no request begins, at least."""
SPARE_S = 5.0
"""A lease lasts so much longer than the request that it is for."""
UNSENDABLE_S = 5.0
_UNTOLD = Verdict("failed", Load.NOTHING, None, "", None, None)
_log = structlog.get_logger("packetboat.push")


class Means(NamedTuple):
    """The means that all engines of the process share."""

    forwarder: SubscribeForwarder
    endpoints: Endpoints
    requests: Requests
    sender: Sender
    log: AttemptLog
    late: Callable[[Subscription, Late, Sequence[bytes]], None]
    """Acks or releases by id what somebody else owns by now."""
    wall_s: Callable[[], float] = time.time
    usage: Usage = NO_LIMITS
    spans: PushSpans | None = None
    """The maker of spans; None: spans are off."""


class _Started(NamedTuple):
    """A request that leaves."""

    items: list[Item]
    endpoint: Endpoint
    began_s: float
    size_bytes: int
    """The size of its messages' data."""


class Engine:
    """Pushes for one subscription, while its endpoint is enabled and some of it is owned here."""

    only_now = False

    def __init__(self, hub: Hub, means: Means, ended: Callable[[], None]) -> None:
        """`ended`: the line is no more, or not all of it."""
        self._hub = hub
        self._ended = ended
        self._means = means
        config = hub.subscription.push
        assert config is not None
        self._config: PushConfig = config
        self.endpoint: Endpoint = self._use(config.url)
        self.joined = False
        self.closed = False
        self._over = False
        """Closed, and nothing is waited for any more."""
        self.gone: str | None = None
        """The endpoint says that it is no more (410)."""
        self.failing_since_s: float | None = None
        """Nothing but failures since then, by the wall clock."""
        self.delivered = 0
        """Messages, since the process began to push."""
        self.last_error: str | None = None
        self._queue: deque[Item] = deque()
        self._queued_bytes = 0
        self._out = 0
        self._out_bytes = 0
        self._preparing = 0
        self._unsendable_until_s: float | None = None
        """No request could be made: the next try."""
        self._pumping = False
        self._waker = self._wake
        self._tasks: set[asyncio.Task[None]] = set()
        self._outcomes = OutcomeCommits(
            hub,
            means.forwarder.flusher.commit,
            means.forwarder.now,
            lambda how, ids: means.late(self._hub.subscription, how, ids),
            self._pump_soon,
        )

    @property
    def hub(self) -> Hub:
        return self._hub

    @property
    def in_flight(self) -> int:
        """Requests."""
        return self._out

    @property
    def idle(self) -> bool:
        return not self._tasks and not self._outcomes.uncommitted

    def join(self) -> None:
        """Join the wait list, if it is not there; raises the Problem of a list that is no more."""
        if not self.joined and not self.closed:
            self._hub.join(self)
            self._hub.streams.add(self)
            self._hub.throttled_by[self] = self.throttles
            self.joined = True
            self._hub.dispatch()

    def leave(self) -> None:
        """Take nothing more; messages that were not sent are returned, requests that are
        out go on.
        """
        if self.joined:
            self.joined = False
            self._hub.leave(self)
            self._hub.streams.discard(self)
            self._hub.throttled_by.pop(self, None)
        self.give_back()

    async def close(self, grace_s: float) -> None:
        """Close for good; requests may take `grace_s` to end, and messages acked already to be
        sent.

        Cancelled, it waits for nothing, and no task of it goes on.
        """
        if self.closed:
            return
        self.closed = True
        try:
            self.leave()
            self._pump()
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    while self._tasks:
                        await asyncio.wait(self._tasks)
        finally:
            self._over = True
            self._means.endpoints.leave(self.endpoint, self._waker)
            running = list(self._tasks)
            for task in running:
                task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._outcomes.close(grace_s)

    def follow(self) -> None:
        """Follow a change of the subscription, or the news that the endpoint works again."""
        config = self._hub.subscription.push
        if config is None or config is self._config:
            return
        if config.url != self._config.url:
            self._means.endpoints.leave(self.endpoint, self._waker)
            self.endpoint = self._use(config.url)
        self._config = config

    def _use(self, url: str) -> Endpoint:
        subscription = self._hub.subscription
        return self._means.endpoints.use(subscription.tenant_id, url, subscription.uid)

    def tick(self) -> None:
        """Once a second: leases that have waited for too long are given back, and what could not
        be made a request of is tried again."""
        self.follow()
        again_s = self._unsendable_until_s
        if again_s is not None and self._means.endpoints.clock() >= again_s:
            self._unsendable_until_s = None
            self._pump_soon()
        if self._queue:
            paused = self._hub.subscription.state == "paused"
            if paused or self.endpoint.shut(self._means.endpoints.clock()):
                self.give_back()
            else:
                self._give_back_late()
            self._pump_soon()

    # One in line.

    def ask(self) -> Want | None:
        """Return the messages and bytes that it may lease now, or None."""
        wanted = self._wanted()
        max_bytes = MAX_OUT_BYTES - self._queued_bytes - self._out_bytes
        if wanted <= 0 or (max_bytes <= 0 and (self._out or self._queue)):
            return None
        lease_s = self._means.forwarder.now().ms / 1000 + self._config.timeout_s + SPARE_S
        return Want(wanted, max(1, max_bytes), lease_from_s=lease_s)

    def give(self, delivery: Delivery) -> bool:
        """Take leased messages to send them; return False, since it stays in the wait list."""
        if self._hub.subscription.delivery == "at_least_once":
            self._take(delivery)
        else:
            self._preparing += delivery.count
            self._spawn(self._prepare(delivery))
        return False

    def end(self, problem: Problem | None) -> None:
        self.joined = False
        self._hub.streams.discard(self)
        self._hub.throttled_by.pop(self, None)
        self.give_back()
        self._ended()

    def give_back(self) -> None:
        """Return the messages that were leased and not sent; at-most-once ones are acked
        already and still to be sent.
        """
        if not self._queue or self._hub.subscription.delivery == "at_most_once":
            return
        items, self._queue = list(self._queue), deque()
        self._queued_bytes = 0
        metrics.decisions.labels("released").inc()
        self._outcomes.give_back(items)

    def tell(self, shown: PushStatus) -> None:
        """Write the state in this process into the status that people see."""
        self.endpoint.tell(shown, self._means.endpoints.clock())
        shown.requests_in_flight = self._out
        shown.leased_ahead = len(self._queue)
        shown.uncommitted = self._outcomes.uncommitted
        shown.delivered = self.delivered
        shown.last_error = self.last_error or self.endpoint.last_error

    def throttles(self) -> list[Throttle]:
        """Return the restraints that the endpoint asked for, or its failures led to."""
        return self.endpoint.throttles(self._means.endpoints.clock())

    # Taking.

    @property
    def _cap(self) -> int:
        """The number of requests at once: this process's part of the subscription's limit."""
        return max(1, int(self._config.max_concurrency * self._hub.share))

    @property
    def _batch(self) -> int:
        """The greatest number of messages of one request."""
        return self._config.max_batch if self._config.format in BATCHING else 1

    @property
    def _waits_for_commit(self) -> bool:
        """Whether too many delivered messages wait for their commit."""
        most = max(MAX_UNCOMMITTED, self._cap * self._batch)
        return self._outcomes.uncommitted >= most

    def _wanted(self) -> int:
        """Return how many messages may be leased now."""
        endpoints, endpoint = self._means.endpoints, self.endpoint
        now_s = endpoints.clock()
        cap = self._cap
        unsendable = self._unsendable_until_s is not None
        if unsendable or self.gone is not None or self._waits_for_commit:
            return 0
        room = min(endpoints.room(endpoint), cap - self._out)
        if room <= 0 and self._out < cap:
            endpoints.wait(endpoint, self._waker)
        ahead = 0
        if self._hub.subscription.delivery != "at_most_once":
            ahead = min(endpoint.ahead(now_s), cap)
        ready = len(self._queue) + self._preparing
        batch = endpoint.messages(self._batch, now_s)
        if 2 * ready > ahead * batch:
            return max(0, room) * batch - ready
        return (max(0, room) + ahead) * batch - ready

    def _take(self, delivery: Delivery) -> None:
        """Queue leased messages, and send them at the end of this turn of the loop."""
        for part in delivery.taken:
            ledger, minter = part.reader.ledger, part.minter
            failures = ledger.has_failures
            attempt = turn = 1
            for batch, index in part.messages():
                if failures:
                    offset = batch.base + index
                    attempt, turn = ledger.attempt(offset), ledger.exact.turn(offset)
                self._queue.append(Item(part.reader, ledger, batch, index, attempt, turn, minter))
                self._queued_bytes += len(batch.messages()[index].data)
        self._pump_soon()

    async def _prepare(self, delivery: Delivery) -> None:
        """Commit what must be committed before the bytes leave."""
        count = delivery.count
        try:
            guarantee = self._hub.subscription.delivery
            await commit_to_send(delivery, guarantee, self._means.forwarder.flusher)
        except Problem as problem:
            self.last_error = problem.detail
            delivery.release()
        else:
            self._take(delivery)
            if not self.joined:
                self.give_back()
            if self.closed:
                self._pump()
        finally:
            self._preparing -= count

    # Sending.

    def _wake(self) -> bool:
        """Push again, because there may be room at the endpoint; return whether that was of use."""
        out = self._out
        self._pump()
        return self._out > out or bool(self._queue or self._preparing)

    def _pump_soon(self) -> None:
        """Have requests begin at the end of this turn of the loop."""
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Begin as many requests as are allowed, then ask the hub for more messages."""
        self._pumping = False
        while (started := self._begin()) is not None:
            self._spawn(self._work(started))
        if self.joined and self._wanted() > 0:
            self._hub.dispatch()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in a task that the engine keeps."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        """Forget a task, and log its failure."""
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("push failed", exc_info=error)

    def _begin(self) -> _Started | None:
        """Begin the next request with messages of the queue, if it may begin now."""
        queue, endpoints, endpoint = self._queue, self._means.endpoints, self.endpoint
        if (
            not queue
            or self._over
            or self.gone is not None
            or self._waits_for_commit
            or self._out >= self._cap
            or not self._means.forwarder.holds_lease()
        ):
            return None
        spent = self._hub.subscription.delivery == "at_most_once"
        if endpoints.room(endpoint) <= 0:
            if endpoint.shut(endpoints.clock()):
                self.give_back()
            endpoints.wait(endpoint, self._waker)
            return None
        most = endpoint.messages(self._batch, endpoints.clock())
        items: list[Item] = []
        size = 0
        while queue and len(items) < most:
            item = queue[0]
            length = len(item.batch.messages()[item.at].data)
            # A message that has failed before goes alone: the endpoint may have refused a batch for
            # it.
            if items and (item.attempt > 1 or size + length > MAX_REQUEST_BYTES):
                break
            queue.popleft()
            self._queued_bytes -= length
            if spent or self._is_leased(item):
                items.append(item)
                size += length
            if item.attempt > 1 and items:
                break
        if not items:
            return None
        self._out += 1
        self._out_bytes += size
        return _Started(items, endpoint, endpoints.begin(endpoint, len(items)), size)

    def _is_leased(self, item: Item) -> bool:
        """Return whether a message is leased for as long as a request may take."""
        if not self._outcomes.current(item):
            return False
        grant = item.ledger.leases.grant_of(item.offset)
        if grant is None:
            return False
        left_ms = grant.deadline_ms - self._means.forwarder.now().ms
        if left_ms > self._config.timeout_s * 1000:
            return True
        self._outcomes.give_back([item])
        return False

    def _give_back_late(self) -> None:
        """Return the messages that cannot be sent in time if they wait for another second
        or two.
        """
        last_ms = self._means.forwarder.now().ms + int((self._config.timeout_s + 2.0) * 1000)
        item = self._queue[0]
        grant = item.ledger.leases.grant_of(item.offset)
        if grant is None or grant.deadline_ms <= last_ms:
            self.give_back()

    async def _work(self, started: _Started | None) -> None:
        """Send requests, one after the other, while there is something to send."""
        while started is not None:
            verdict = _UNTOLD
            try:
                verdict = await self._send(started.items)
            finally:
                self._out -= 1
                self._out_bytes -= started.size_bytes
                self._means.endpoints.keep(started.endpoint, self._waker)
                self._means.endpoints.ended(started.endpoint, started.began_s, verdict)
                self._pump_soon()
            started = self._begin()

    async def _send(self, items: list[Item]) -> Verdict:
        """Send one request, and settle its messages by the answer."""
        means, subscription = self._means, self._hub.subscription
        wall_s = means.wall_s()
        try:
            outgoing = [_outgoing(item) for item in items]
            request = means.requests.build(subscription, outgoing, wall_s)
            post, timeout_s = means.sender.send, self._config.timeout_s
            if means.spans is None:
                answer = await post(request, timeout_s)
            else:
                answer = await means.spans.send(post, subscription, outgoing, request, timeout_s)
        except (Unsendable, MetadataError) as error:
            self._not_sent(items, str(error))
            return _UNTOLD
        verdict = judge(answer, means.wall_s())
        self._note(items, verdict, answer.latency_s)
        means.log.add(subscription, items, verdict, answer, wall_s)
        self._outcomes.settle(items, verdict)
        return verdict

    def _not_sent(self, items: Sequence[Item], why: str) -> None:
        """Release messages for which no request could be made: neither they nor the endpoint are at
        fault.
        """
        if self.last_error != why:
            _log.error("push request", subscription=self._hub.subscription.name, error=why)
        self.last_error = why
        self._unsendable_until_s = self._means.endpoints.clock() + UNSENDABLE_S
        if self._hub.subscription.delivery != "at_most_once":
            self._outcomes.give_back(items)
        self.give_back()

    def _note(self, items: Sequence[Item], verdict: Verdict, latency_s: float) -> None:
        """Count the outcome of a request; end the push if the endpoint is gone."""
        outcome = verdict.outcome
        metrics.requests.labels(outcome).inc()
        metrics.messages.labels(outcome).inc(len(items))
        metrics.seconds.observe(latency_s)
        if outcome == "delivered":
            self.delivered += len(items)
            tenant_id = self._hub.subscription.tenant_id
            self._means.usage.count(tenant_id, PUSH_DELIVERIES, len(items))
            self.failing_since_s = None
            return
        self.last_error = verdict.detail
        if self.failing_since_s is None:
            self.failing_since_s = self._means.wall_s()
        if outcome == "gone":
            self.gone = verdict.detail
            self.give_back()
            self._ended()


def _outgoing(item: Item) -> Outgoing:
    """Return a message as requests are built from it."""
    batch, at = item.batch, item.at
    renderer = item.reader.tail.renderer
    return Outgoing(
        batch.messages()[at],
        batch.message_id(at, renderer).decode("ascii"),
        batch.log_time_us,
        batch.partition,
        batch.base + at,
        item.attempt,
        batch.fragment(at, renderer),
    )
