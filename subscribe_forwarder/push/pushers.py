"""Keeps an engine for each push subscription with an enabled endpoint and a part owned here.

They follow ownership (owned topics, once a second, and lost wait lists at once) and changes by
others (the change feed; nothing is sent for a tenant that is suspended), ask endpoints for their
consent (the owner of partition 0 does), and disable those that gave nothing but failures for as
long as their subscription says. Each of several owners sees its own requests: the time when the
failures began is kept in Postgres, and one success anywhere ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import structlog

from edge.problem import Problem
from metadata.errors import MetadataError, NotFound
from metadata.subscriptions.push_endpoints import PushEndpoint, PushEndpointRepository
from metadata.types import Change, ChangeKind, Subscription, Unit
from openapi.push import PushStatus
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.push import metrics
from subscribe_forwarder.push.endpoint_state import EndpointState, endpoint_state_of, retry_in_s
from subscribe_forwarder.push.engine import Engine, Means
from subscribe_forwarder.push.events import EndpointEvents
from subscribe_forwarder.push.requests import Requests
from subscribe_forwarder.push.verification import Verified, verify

TICK_S = 1.0
LOOK_AGAIN_S = 30.0
"""Seconds between two looks at everything, whatever the change feed told, or did not."""
ELSEWHERE_S = 2.0
TOLD_AFTER_S = 5.0
"""Seconds failures must last to be written down."""
REFRESH_S = 10.0
MAX_VERIFYING = 16
GRACE_S = 5.0
_log = structlog.get_logger("packetboat.push")


class Pushed:
    """A push subscription of which something is owned here."""

    def __init__(self, subscription: Subscription, row: PushEndpoint | None) -> None:
        self.row = row
        self.engine: Engine | None = None
        self.not_before_s = float("-inf")
        """The time before which it is not looked for: it was not here at the last look."""
        self.verify_s = float("-inf")
        self.verify_failed = 0
        self.verifying = False
        self.telling = False
        self.told: frozenset[bytes] = frozenset()
        """The ids of the events that are in their topic."""
        self.to_tell = True
        """Whether there may be other events."""
        self.delivered = 0
        """The messages that its engine had delivered when that was last looked at."""
        self.follow(subscription)

    def follow(self, subscription: Subscription) -> None:
        self.subscription = subscription
        assert subscription.push is not None
        self.config = subscription.push

    @property
    def endpoint_state(self) -> EndpointState:
        return endpoint_state_of(self.config, self.row)

    def failing_since_s(self) -> float | None:
        """Return the time by the wall clock; None: it does not fail, or nothing was sent."""
        engine = self.engine
        if engine is None or engine.failing_since_s is None:
            return None
        if self.row is None or self.row.failing_since is None:
            return engine.failing_since_s
        return min(engine.failing_since_s, self.row.failing_since.timestamp())


class Pushers:
    """One per process; use it on its loop. A listener of the change feed, after the catalog."""

    def __init__(
        self,
        forwarder: SubscribeForwarder,
        endpoints: PushEndpointRepository,
        means: Means,
        challenges: Requests,
        events: EndpointEvents | None = None,
        *,
        inactive: Callable[[], Awaitable[frozenset[bytes]]] | None = None,
    ) -> None:
        """Make the pushers.

        `events`: tells tenants of changes of their endpoints; `inactive`: returns the tenants for
        which nothing is done now (MetadataError), None for none.
        """
        self._forwarder = forwarder
        self._endpoints = endpoints
        self._means = means
        self._challenges = challenges
        self._events = events
        self._ask_inactive = inactive
        self._inactive: frozenset[bytes] = frozenset()
        self._tenants_stale = inactive is not None
        self._pushed: dict[bytes, Pushed] = {}
        self._owned: dict[bytes, bytes] = {}
        """The tenants of the topics that have units here, as of `_owned_version`."""
        self._owned_version = -1
        self._of_topic: dict[bytes, set[bytes]] = {}
        self._stale_topics: set[bytes] = set()
        self._stale: set[bytes] = set()
        self._look_again_s = 0.0
        self._refresh_s = 0.0
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._verifying = asyncio.Semaphore(MAX_VERIFYING)
        self._draining = False

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def drain(self) -> None:
        """Take nothing more; requests that are out go on."""
        self._draining = True
        for pushed in self._pushed.values():
            if pushed.engine is not None:
                pushed.engine.leave()

    async def close(self) -> None:
        """Requests that are out have some seconds to end."""
        self.drain()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for pushed in self._pushed.values():
            self._stop(pushed, GRACE_S)
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        if self._closing:
            _, running = await asyncio.wait(set(self._closing), timeout=2 * GRACE_S)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        self._means.endpoints.close()

    async def on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind is ChangeKind.RESET:
                self._look_again_s = 0.0
            elif change.kind is ChangeKind.TENANT:
                self._tenants_stale = True
            elif change.kind is ChangeKind.SUBSCRIPTION:
                self.changed(change.uid, change.topic_uid)
            elif change.kind is ChangeKind.TOPIC:
                self._stale_topics.add(change.uid)
        if self._stale or self._stale_topics or self._tenants_stale:
            self._wake.set()

    def changed(self, subscription_uid: bytes, topic_uid: bytes) -> None:
        """Look at the subscription again: it, or its endpoint, is other than it was."""
        self._stale.add(subscription_uid)
        self._stale_topics.add(topic_uid)
        self._wake.set()

    def status(self, subscription_uid: bytes) -> PushStatus | None:
        """Return the state, for people; None: nothing of it is pushed from here."""
        pushed = self._pushed.get(subscription_uid)
        if pushed is None:
            return None
        state, reason = pushed.endpoint_state
        if pushed.subscription.tenant_id in self._inactive:
            reason = "its tenant is not active"
        since_s = pushed.failing_since_s()
        since = None if since_s is None else datetime.fromtimestamp(since_s, UTC)
        shown = PushStatus(state, reason, since)
        if pushed.engine is not None:
            pushed.engine.tell(shown)
        return shown

    async def verify_now(self, subscription: Subscription) -> Verified:
        """Asks the endpoint once, and writes down what came of it. Raises MetadataError."""
        async with self._verifying:
            means = self._means
            found = await verify(subscription, self._challenges, means.sender, means.wall_s)
        if found.reason:
            await self._endpoints.not_verified(subscription, found.reason)
            metrics.decisions.labels("unverified").inc()
        else:
            await self._endpoints.verified(subscription, found.url)
            metrics.decisions.labels("verified").inc()
        self.changed(subscription.uid, subscription.topic_uid)
        return found

    async def enable(self, subscription: Subscription) -> None:
        """Deliver its backlog again. Raises MetadataError."""
        if await self._endpoints.enable(subscription):
            metrics.decisions.labels("enabled").inc()
        self.changed(subscription.uid, subscription.topic_uid)

    # Within.

    async def _run(self) -> None:
        """Run for the life of the process; only cancellation ends it."""
        while True:
            try:
                await self._round()
            except (MetadataError, Problem) as error:
                _log.warning("pushing waits", error=str(error))
                await asyncio.sleep(TICK_S)
            except Exception as error:
                _log.error("pushing failed", exc_info=error)
                await asyncio.sleep(TICK_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    await self._wake.wait()
            self._wake.clear()

    async def _round(self) -> None:
        if not self._forwarder.holds_lease():
            return
        await self._look_at_tenants()
        await self._look_at_topics()
        await self._look_at_rows()
        now_s = self._means.endpoints.clock()
        for pushed in list(self._pushed.values()):
            if pushed.to_tell:
                self._tell(pushed)
            await self._follow(pushed, now_s)
        await self._look_at_failures(now_s)
        self._means.endpoints.tell()
        metrics.subscriptions.set(len(self._pushed))

    async def _look_at_tenants(self) -> None:
        """Look up the tenants that are suspended or being deleted, and those whose
        endpoints begin anew.
        """
        now_s = self._means.endpoints.clock()
        if self._ask_inactive is None or not (self._tenants_stale or now_s >= self._look_again_s):
            return
        self._tenants_stale = False
        try:
            inactive = await self._ask_inactive()
            back = self._inactive - inactive
            self._inactive |= inactive
            well = [
                one.subscription
                for one in self._pushed.values()
                if one.subscription.tenant_id in back
            ]
            if well:  # else the time without requests would count as failing
                await self._endpoints.well(well)
                self._stale.update(one.uid for one in well)
            self._inactive = inactive
        except MetadataError:
            self._tenants_stale = True
            raise

    async def _look_at_topics(self) -> None:
        """Look up the subscriptions to push."""
        owners = self._forwarder.owners
        if owners.version != self._owned_version:
            self._owned = {owner.key.topic_uid: owner.key.tenant_id for owner in owners}
            self._owned_version = owners.version
        owned = self._owned
        now_s = self._means.endpoints.clock()
        if now_s >= self._look_again_s:
            self._look_again_s = now_s + LOOK_AGAIN_S
            self._stale_topics.update(owned)
            self._stale.update(self._pushed)
        for uid in [uid for uid in self._of_topic if uid not in owned]:
            self._forget(self._of_topic.pop(uid))
        stale = [uid for uid in owned if uid in self._stale_topics or uid not in self._of_topic]
        self._stale_topics.clear()
        for at, topic_uid in enumerate(stale):
            try:
                await self._look_at_topic(owned[topic_uid], topic_uid)
            except MetadataError:
                self._stale_topics.update(stale[at:])
                raise

    async def _look_at_topic(self, tenant_id: bytes, topic_uid: bytes) -> None:
        every = await self._forwarder.catalog.subscriptions_of(tenant_id, topic_uid)
        wanted = {one.uid: one for one in every if one.type == "push" and one.push}
        before = self._of_topic.get(topic_uid, set())
        self._forget(before - wanted.keys())
        known = [one for one in wanted.values() if one.uid in self._pushed]
        fresh = [one for one in wanted.values() if one.uid not in self._pushed]
        if fresh:
            rows = await self._endpoints.load(fresh)
            for one in fresh:
                self._pushed[one.uid] = Pushed(one, rows.get(one.uid))
        for one in known:
            self._pushed[one.uid].follow(one)
        self._of_topic[topic_uid] = set(wanted)

    async def _look_at_rows(self) -> None:
        """Look up what others wrote of the endpoints."""
        stale, self._stale = self._stale, set()
        looked_at = [self._pushed[uid] for uid in stale if uid in self._pushed]
        if not looked_at:
            return
        try:
            rows = await self._endpoints.load([one.subscription for one in looked_at])
        except MetadataError:
            self._stale |= stale
            raise
        for one in looked_at:
            before, one.row = one.endpoint_state, rows.get(one.subscription.uid)
            one.not_before_s = float("-inf")
            one.to_tell = True
            if one.endpoint_state != before:
                self._turned(one, before)

    def _turned(self, one: Pushed, before: EndpointState) -> None:
        state, reason = one.endpoint_state
        name = one.subscription.name
        _log.info("push endpoint", subscription=name, state=state, reason=reason)
        if state == "enabled" and before.state == "disabled" and one.engine is not None:
            one.engine.endpoint.reset(self._means.endpoints.clock())

    def _forget(self, uids: set[bytes]) -> None:
        """Forget subscriptions of which nothing is here any more, or that are not pushed."""
        for uid in uids:
            pushed = self._pushed.pop(uid, None)
            if pushed is not None:
                self._stop(pushed)

    def _stop(self, pushed: Pushed, grace_s: float | None = None) -> None:
        engine, pushed.engine = pushed.engine, None
        if engine is not None:
            engine.leave()
            grace_s = pushed.config.timeout_s if grace_s is None else grace_s
            _spawn(engine.close(grace_s), self._closing)

    async def _follow(self, pushed: Pushed, now_s: float) -> None:
        """Run its engine where it is to run, and only there."""
        if self._draining:
            return
        if pushed.subscription.tenant_id in self._inactive:
            self._stop(pushed)
            return
        state = pushed.endpoint_state.state
        if state != "enabled":
            self._stop(pushed)
            if state == "unverified" and now_s >= pushed.verify_s and not pushed.verifying:
                self._verify(pushed, now_s)
            return
        engine = pushed.engine
        if engine is not None and engine.joined and not engine.hub.incomplete:
            engine.tick()
            return
        if now_s < pushed.not_before_s:
            return
        subscription = pushed.subscription
        try:
            hub = await self._forwarder.hub(subscription.tenant_id, subscription.name, part=True)
            if hub.subscription.uid != subscription.uid or self._draining:
                return
            if engine is not None and engine.hub is not hub:
                self._stop(pushed)
                engine = None
            if engine is None:
                engine = pushed.engine = Engine(hub, self._means, self._wake.set)
            engine.tick()
            engine.join()
        except (Problem, NotFound):
            pushed.not_before_s = now_s + ELSEWHERE_S

    def _verify(self, pushed: Pushed, now_s: float) -> None:
        one = pushed.subscription
        if not self._leads(one):
            return
        pushed.verifying = True
        pushed.verify_s = now_s + retry_in_s(pushed.verify_failed)
        _spawn(self._ask(pushed), self._asking)

    def _leads(self, one: Subscription) -> bool:
        """Return whether this process owns the first partition, and so does what one owner
        is to do.
        """
        unit = Unit(one.tenant_id, one.topic_uid, 0)
        return self._forwarder.owners.serving(unit, one.uid) is not None

    def _tell(self, pushed: Pushed) -> None:
        if self._events is None or pushed.config.events_topic is None:
            pushed.to_tell = False
        elif not pushed.telling and self._leads(pushed.subscription):
            pushed.to_tell, pushed.telling = False, True
            _spawn(self._tell_events(self._events, pushed), self._asking)

    async def _tell_events(self, events: EndpointEvents, pushed: Pushed) -> None:
        try:
            pushed.told = await events.tell(pushed.subscription, pushed.told)
        finally:
            pushed.telling = False

    async def _ask(self, pushed: Pushed) -> None:
        try:
            url = pushed.config.url
            found = await self.verify_now(pushed.subscription)
            pushed.verify_failed = pushed.verify_failed + 1 if found.reason else 0
            if pushed.config.url != url:
                pushed.verify_s = float("-inf")
        except MetadataError as error:
            _log.warning("endpoint not verified", error=str(error))
        finally:
            pushed.verifying = False

    async def _look_at_failures(self, now_s: float) -> None:
        failing: list[tuple[Subscription, float]] = []
        well: list[Subscription] = []
        wall_s = self._means.wall_s()
        refresh = now_s >= self._refresh_s
        if refresh:
            self._refresh_s = now_s + REFRESH_S
        for pushed in list(self._pushed.values()):
            engine = pushed.engine
            if engine is None:
                continue
            told = pushed.row is not None and pushed.row.failing_since is not None
            if engine.gone is not None:
                await self._disable(pushed, f"the endpoint {engine.gone}", None)
                continue
            since_s = pushed.failing_since_s()
            if since_s is None:
                if told and engine.delivered > pushed.delivered:
                    well.append(pushed.subscription)
                elif refresh and engine.delivered > pushed.delivered and engine.hub.share < 1.0:
                    self._stale.add(pushed.subscription.uid)
                pushed.delivered = engine.delivered if refresh or told else pushed.delivered
                continue
            for_s, after_s = wall_s - since_s, pushed.config.disable_after_s
            if not told and for_s >= min(TOLD_AFTER_S, after_s or TOLD_AFTER_S):
                failing.append((pushed.subscription, for_s))
            elif told and after_s is not None and for_s >= after_s:
                why = f"nothing but failures for {for_s:.0f} s; the last: {engine.last_error}"
                await self._disable(pushed, why, after_s)
        if failing:
            await self._endpoints.failing(failing)
        if well:
            await self._endpoints.well(well)
        changed = [one.uid for one, _ in failing] + [one.uid for one in well]
        if changed:
            self._stale.update(changed)
            self._wake.set()

    async def _disable(self, pushed: Pushed, why: str, failing_for_s: float | None) -> None:
        one = pushed.subscription
        if await self._endpoints.disable(one, why, failing_for_s=failing_for_s):
            metrics.decisions.labels("disabled").inc()
            _log.warning("push endpoint disabled", subscription=one.name, reason=why)
        self.changed(one.uid, one.topic_uid)


def _spawn(work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    among.add(task)
    task.add_done_callback(among.discard)
