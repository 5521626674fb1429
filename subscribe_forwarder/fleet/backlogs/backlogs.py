"""Counts the backlogs that this forwarder and its peers know, for readers in this process.

The numbers help to decide where to look first, and how many workers to run; nothing else depends on
them.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress

import structlog

from edge.lifetime import keep_running
from edge.problem import Problem
from metadata.errors import MetadataError
from metadata.types import Unit
from subscribe_forwarder.delivery.listeners import Listeners
from subscribe_forwarder.fleet.backlogs.exchange import Exchange
from subscribe_forwarder.fleet.backlogs.interest import Interest
from subscribe_forwarder.fleet.backlogs.local import Holdings
from subscribe_forwarder.fleet.backlogs.part import Part, Wanted
from subscribe_forwarder.fleet.backlogs.reported import Backlog, ReportedBacklogs
from subscribe_forwarder.fleet.backlogs.tracker import HERE, Tracker
from subscribe_forwarder.fleet.backlogs.watch import Watch
from subscribe_forwarder.peers import Links

USED_S = 30.0
"""Seconds a subscription is kept up to date after a call of `most_backlog_first`."""
GAP_S = 0.02
"""Between two rounds: what changes together is told together."""
ROUND = 200
"""Subscriptions counted before others have their turn."""
HOUSEKEEPING_S = 1.0
LookFor = Callable[[Wanted, Iterable[int]], Awaitable[None]]
_log = structlog.get_logger("packetboat.subscribe")


class Backlogs:
    """Counts the backlogs for one process, on one event loop."""

    def __init__(
        self,
        holdings: Holdings,
        listeners: Listeners,
        links: Links | None = None,
        look_for: LookFor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`links` None: this forwarder is alone. `look_for` finds owners for these partitions; it
        may raise Problem and MetadataError."""
        self._holdings = holdings
        self._look_for = look_for
        self._clock = clock
        self._tracker = Tracker(holdings)
        self._interest = Interest()
        self._reported = ReportedBacklogs()
        self._watches: dict[bytes, set[Watch]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._exchange: Exchange | None = None
        if links is not None:
            wake = self._wake.set
            self._exchange = Exchange(links, self, self._tracker, holdings, wake, clock)
        listeners.listen(grew=self._grew, moved=self._grew, worked=self._worked)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(
            keep_running(self._run, "count of backlogs")
        )
        if self._exchange is not None:
            self._exchange.start()

    async def close(self) -> None:
        """Close it; idempotent."""
        if self._exchange is not None:
            await self._exchange.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # For those who want to hear.

    def watch(self) -> Watch:
        """Return a watch, which follows nothing yet; close it in the end."""
        return Watch(self._followed, self.view)

    async def look_for_owners(self, some: Iterable[Wanted]) -> None:
        """Look for the owners of partitions of which no forwarder has told.

        A topic that nobody has used yet has none.
        """
        for wanted in some:
            view = self.view(wanted)
            if view.complete or self._look_for is None:
                continue
            told = {share.partition for share in view.shares}
            missing = [number for number in range(wanted.partitions) if number not in told]
            with suppress(Problem, MetadataError):
                await self._look_for(wanted, missing)

    def view(self, wanted: Wanted) -> Backlog:
        """Return the known backlog.

        Nothing is known of a subscription that nobody here has wanted lately.
        """
        return self._reported.view(wanted.subscription_uid, wanted.partitions)

    def most_backlog_first(self, wanted: Wanted, forwarders: Iterable[bytes]) -> list[bytes]:
        """Return the peers that own some of it, in the order in which to ask them for messages.

        The order comes from what they told. The subscription is kept up to date for a while from
        now on: the first answer knows little.
        """
        now_s = self._clock()
        if self._interest.use(wanted, now_s + USED_S):
            self._want([wanted], now_s)
        return self._reported.most_backlog_first(wanted.subscription_uid, forwarders)

    # Calls with news from other forwarders.

    @property
    def wanted(self) -> Mapping[bytes, Wanted]:
        """Return the subscriptions that are wanted here, by uid."""
        return self._interest.wanted

    def heard(self, forwarder: bytes, parts: Iterable[Part]) -> None:
        """Takes it in; of what is not wanted any more nothing is kept."""
        now_s = self._clock()
        for part in parts:
            uid = part.subscription_uid
            if uid in self._interest and self._reported.take(forwarder, part, now_s):
                self._notify(uid)

    def gone(self, forwarder: bytes) -> None:
        """Mark as stale what the forwarder told: it tells nothing more."""
        for uid in self._reported.gone(forwarder, self._clock()):
            self._notify(uid)
        self._wake.set()

    # Calls with news of this process.

    def _grew(self, unit: Unit) -> None:
        """Note that a unit grew, and wake the report if anyone wants to hear of it."""
        if self._tracker.grew(unit):
            self._wake.set()

    def _worked(self, subscription_uid: bytes) -> None:
        """Note work on a subscription, and wake the report if anyone wants to hear of it."""
        if self._tracker.worked(subscription_uid):
            self._wake.set()

    def _followed(
        self, watch: Watch, before: Mapping[bytes, Wanted], after: Mapping[bytes, Wanted]
    ) -> None:
        now_s = self._clock()
        new = [one for uid, one in after.items() if before.get(uid) != one]
        for one in new:
            self._watches.setdefault(one.subscription_uid, set()).add(watch)
        fresh = [one for one in new if self._interest.hold(one)]
        for uid in before:
            if uid in after and before[uid] == after[uid]:
                continue
            self._interest.let_go(uid, now_s)  # held anew, where it is one of the new
            if uid not in after:
                self._unwatch(uid, watch)
        self._want(fresh, now_s)

    def _unwatch(self, uid: bytes, watch: Watch) -> None:
        watches = self._watches[uid]
        watches.discard(watch)
        if not watches:
            del self._watches[uid]

    def _want(self, fresh: Iterable[Wanted], now_s: float) -> None:
        for one in fresh:
            if self._reported.take(HERE, self._tracker.want(HERE, one, now_s), now_s):
                self._notify(one.subscription_uid)
        self._wake.set()
        if self._exchange is not None:
            self._exchange.want_changed()

    def _notify(self, uid: bytes) -> None:
        for watch in self._watches.get(uid, ()):
            watch.changed(uid)

    # Rounds.

    async def _run(self) -> None:
        while True:
            await self._something_due()
            try:
                await self._round()
            except MetadataError as error:
                _log.warning("cursors not loaded", error=repr(error))
            await asyncio.sleep(GAP_S)

    async def _something_due(self) -> None:
        """Waits for it; nothing wakes a forwarder of which nobody wants to hear anything."""
        while True:
            self._wake.clear()
            now_s = self._clock()
            due_s = self._tracker.next_s()
            if self._reported.any_stale or self._interest.any_unheld:
                tidy_s = now_s + HOUSEKEEPING_S
                due_s = tidy_s if due_s is None else min(due_s, tidy_s)
            if due_s is not None and due_s <= now_s:
                return
            try:
                async with asyncio.timeout(None if due_s is None else due_s - now_s):
                    await self._wake.wait()
            except TimeoutError:
                return

    async def _round(self) -> None:
        """Counts what may have changed, and tells it. Raises MetadataError."""
        outgoing: defaultdict[bytes, list[Part]] = defaultdict(list)
        for count, change in enumerate(self._tracker.changes(self._clock()), 1):
            if change is not None:
                for who in change.for_whom:
                    outgoing[who].append(change.part)
            if count % ROUND == 0:
                self._tell(outgoing)
                outgoing.clear()
                await asyncio.sleep(0)
        self._tell(outgoing)
        self._tidy()
        missing, self._tracker.missing = self._tracker.missing, {}
        if missing:
            for uid in await self._holdings.load(list(missing.values())):
                self._tracker.found(uid)
            self._wake.set()

    def _tell(self, outgoing: dict[bytes, list[Part]]) -> None:
        self.heard(HERE, outgoing.pop(HERE, ()))
        if self._exchange is not None:
            self._exchange.tell(outgoing)

    def _tidy(self) -> None:
        now_s = self._clock()
        for uid in self._reported.expire(now_s):
            self._notify(uid)
        over = self._interest.expire(now_s)
        if over:
            self._tracker.unwant(HERE, over)
            for uid in over:
                self._reported.forget(uid)
            if self._exchange is not None:
                self._exchange.want_changed()
