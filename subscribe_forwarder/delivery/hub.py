"""Serves the consumers of one subscription over all its partitions: first come, first served.

A pull that finds messages in the cache is answered without a task, a timer or a wait. Others are in
the wait list, as streams are. Each event that may make messages ready (new messages, a fetch, an
ack, a deadline) calls `dispatch`, which serves the list from its head. A consumer that has reached
its own limit stands aside and holds up nobody. A waiter that goes away leaves nothing leased.

An event costs the same however many consumers wait, as long as these take from any partition.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

from edge.problem import Problem, unavailable
from edge.quota import DELIVERED_BYTES, DELIVERED_MESSAGES, NO_LIMITS, Usage
from metadata.types import Subscription
from openapi.flow import Throttle
from subscribe_forwarder.delivery.collector import Collector
from subscribe_forwarder.delivery.growth import Growth
from subscribe_forwarder.delivery.listeners import Listeners
from subscribe_forwarder.delivery.open_readers import OpenReaders
from subscribe_forwarder.delivery.pull_limits import PullLimits
from subscribe_forwarder.delivery.reader import (
    PAUSED_KEYS,
    PAUSED_OUTSTANDING,
    Reader,
    Taken,
)
from subscribe_forwarder.delivery.reading.judgement import Turn
from subscribe_forwarder.delivery.reading.tail import wall_us
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.ledger import Now
from subscribe_forwarder.delivery.state.rate import RateLimits
from subscribe_forwarder.delivery.terms import DEFAULT_TERMS, Terms
from subscribe_forwarder.delivery.throttling.flows import Capacity
from subscribe_forwarder.delivery.throttling.in_flight import Both, TenantInFlight
from subscribe_forwarder.delivery.throttling.throttling import Throttling, of_flow, of_machine
from subscribe_forwarder.delivery.wait_list import Delivery, Waiter, Want
from subscribe_forwarder.peers import misdirected
from subscribe_forwarder.settings import SubscribeSettings

_RETRY_AFTER_S = 1.0
_ANY_NUMBER = 2**31
PENDING_S = 0.005
"""Seconds between looks at a message that another process judges."""
PAUSED_RATE = "rate_limited"
PAUSED_TENANT = "tenant_in_flight"


class Hub:
    """Serves one subscription from the readers that this process owns."""

    def __init__(
        self,
        subscription: Subscription,
        may_deliver: Callable[[Reader], bool],
        progressed: Callable[[Reader], None],
        settings: SubscribeSettings,
        clock: Callable[[], float] = time.monotonic,
        *,
        on_delivered: Callable[[Sequence[Taken]], None] = lambda _: None,
        listeners: Listeners | None = None,
        throttling: Throttling | None = None,
        in_flight: TenantInFlight | None = None,
        usage: Usage = NO_LIMITS,
    ) -> None:
        self.subscription = subscription
        self.delivered = 0
        """The messages delivered, those included whose response did not leave."""
        self._listeners = listeners or Listeners()
        self.readers: dict[Lane, Reader] = {}
        self.growth = Growth(progressed)
        self.incomplete = True
        """A reader may be missing: look for it before the next use."""
        self.share = 1.0
        """The part of the subscription's partitions that is served here, and the part of
        its limits.
        """
        self.closed: Problem | None = None
        self.collector = Collector(may_deliver, progressed)
        self.terms = DEFAULT_TERMS
        self._may_deliver = may_deliver
        self._on_delivered = on_delivered
        self._settings = settings
        self._clock = clock
        self._throttling = throttling
        self._said: Capacity | None = None
        self._in_flight = in_flight
        self._usage = usage
        beside = None if throttling is None else throttling.machine
        if in_flight is None:
            self.limits = RateLimits(beside)
        else:
            in_flight.add(self)
            self.limits = RateLimits(in_flight if beside is None else Both(beside, in_flight))
        self.throttled_by: dict[object, Callable[[], Sequence[Throttle]]] = {}
        """Other restraints, by the object that reports them."""
        self.open_readers = OpenReaders(may_deliver, progressed)
        self._limits_of: tuple[Subscription, float, Capacity | None] | None = None
        self._waiting: OrderedDict[Waiter, None] = OrderedDict()
        self._blocked: dict[Waiter, None] = {}
        self._hasty: dict[Waiter, None] = {}
        """Waiters that end as soon as nothing is ready."""
        self.streams: set[Waiter] = set()
        """The open streams, in line or not."""
        self._more = False
        """The last pass took nothing and did not get to the end."""
        self._emptied = False
        """The last pass took all that is ready: it would give the next consumer nothing."""
        self._turn = Turn()
        self._renewing = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of pulls and streams that wait for messages, or for their limits."""
        return len(self._waiting) + len(self._blocked)

    @property
    def waiting_pulls(self) -> int:
        streams = sum(one in self._waiting or one in self._blocked for one in self.streams)
        return self.waiting - streams

    @property
    def outstanding(self) -> int:
        """The number of leased and waiting messages of all readers."""
        return sum(reader.outstanding for reader in self.readers.values())

    def leased(self) -> int:
        """Return the number of messages leased here, after expired leases are ended."""
        now = Now(int(self._clock() * 1000), wall_us())
        leased = 0
        for reader in self.readers.values():
            if reader.ledger.leases.leased and self._may_deliver(reader):
                reader.end_leases(now)
            leased += reader.ledger.leases.leased
        return leased

    def paused_reason(self) -> str | None:
        """Return the reason for which no new message is delivered, if there is one."""
        state = self.subscription.state
        if state != "active":
            return state
        outstanding = self.outstanding
        if outstanding >= self.max_outstanding:
            held = sum(reader.held for reader in self.readers.values())
            return PAUSED_KEYS if 2 * held >= outstanding else PAUSED_OUTSTANDING
        for reader in self.readers.values():
            if (reason := reader.ledger.paused_reason()) is not None:
                return reason
        if self._in_flight is not None and not self._in_flight.room(1, self._clock()):
            return PAUSED_TENANT
        limits = self._limits_now()
        if self._stopped_by_flow or (limits.any and not limits.room(_ANY_NUMBER, self._clock())):
            return PAUSED_RATE
        return None

    def throttles(self) -> list[Throttle]:
        """Return the restraints that slow it now, besides its own settings."""
        found: list[Throttle] = []
        if self._throttling is not None:
            self._limits_now()
            if self._said is not None:
                found += of_flow(self._said, self._clock())
            found += of_machine(self._throttling.machine)
        if self._in_flight is not None:
            found += self._in_flight.restraints()
        for others in self.throttled_by.values():
            found += others()
        return found

    @property
    def max_outstanding(self) -> int:
        """The number of leased and waiting messages at which new deliveries pause."""
        whole = self.subscription.max_outstanding or self._settings.max_outstanding
        self._limits_now()
        if self._said is not None and self._said.max_outstanding is not None:
            whole = min(whole, self._said.max_outstanding)
        return max(1, int(whole * self.share))

    def follow(self, subscription: Subscription, terms: Terms) -> None:
        """Follow the subscription, in the generation of its readers."""
        self.subscription = subscription
        self.terms = terms
        self._limits_now()
        for reader in self.readers.values():
            reader.follow(terms)
        if self.waiting:
            self.dispatch()

    def pull_now(self, want: Want) -> Delivery | None:
        """Return messages that are ready and in the cache, unless others wait before it."""
        if self._waiting or self.closed is not None:
            return None
        return self._serve(want)

    def join(self, waiter: Waiter) -> None:
        """Add a waiter to the end of the wait list; every waiter ends in `leave`."""
        if self.closed is not None:
            raise self.closed
        if self.waiting >= self._settings.max_waiting_pulls:
            raise Problem.of(
                "too-many-waiting-pulls",
                f"{self.waiting} consumers of this subscription are waiting already.",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._waiting[waiter] = None
        if waiter.only_now:
            self._hasty[waiter] = None
        self._listeners.worked(self.subscription.uid)

    def leave(self, waiter: Waiter) -> None:
        """Leave the line, if the waiter is still in it."""
        for line in (self._waiting, self._blocked, self._hasty):
            line.pop(waiter, None)
        self._listeners.worked(self.subscription.uid)

    async def refresh(self) -> None:
        """Ask the store for the ends of the partitions, so that an empty answer is a true one."""
        tails = [reader.tail for reader in self.readers.values()]
        try:
            async with asyncio.timeout(self._settings.empty_pull_refresh_s):
                await asyncio.gather(*(tail.refresh() for tail in tails))
        except TimeoutError:
            return

    def dispatch(self) -> None:
        """Deliver ready messages to the waiting consumers, in order."""
        self.open_readers.affinity.expire(self._clock())
        line = self._waiting
        if self._blocked:
            # Their own limits held them back; they may have room by now.
            line.update(self._blocked)
            self._blocked.clear()
        passed: list[Waiter] = []
        more = self._emptied = False
        while line:
            waiter = next(iter(line))
            want = self._asked(waiter)
            if want is None:
                del line[waiter]
                self._step_aside(waiter)
                continue
            if self._emptied and want.places is None:
                break
            delivery = self._serve(want)
            more |= self._more
            if delivery is None:
                if want.places is None:
                    break
                del line[waiter]
                passed.append(waiter)  # nothing in its partitions, but maybe in others
            elif waiter.give(delivery):
                del line[waiter]
        for waiter in reversed(passed):
            line[waiter] = None
            line.move_to_end(waiter, last=False)
        self._more = more
        if line or self._blocked:
            self._idle()

    def settled(self) -> None:
        """Serve the wait list again after messages were settled: that may end a pause."""
        if self.waiting and not all(reader.drained for reader in self.readers.values()):
            self.dispatch()

    def attend(self, consumer: str, stays_s: float) -> None:
        """Count a consumer that wants its own partitions as present for `stays_s`, unless
        it reports again or departs.
        """
        if self.open_readers.affinity.attend(consumer, self._clock() + stays_s) and self.waiting:
            self.dispatch()

    def depart(self, consumer: str) -> None:
        """Remove a consumer; its partitions are for others."""
        if self.open_readers.affinity.depart(consumer) and self.waiting:
            self.dispatch()

    def finish(self, problem: Problem, *, gone: bool = False) -> None:
        """Refuses new waits; ends the present ones with what they have, or with the problem when
        `gone`."""
        self.closed = problem
        self._stop_timer()
        waiting = {*self._waiting, *self._blocked, *self.streams}
        self._waiting.clear()
        self._blocked.clear()
        for waiter in waiting:
            waiter.end(problem if gone else None)

    def lose(self) -> None:
        """Tell waiters to look again for their owner: another forwarder serves some
        partitions now, or soon.
        """
        waiting = {*self._waiting, *self._blocked, *self.streams}
        self._waiting.clear()
        self._blocked.clear()
        for waiter in waiting:
            waiter.end(misdirected())

    def check_served(self) -> None:
        """Raise a 503 Problem if messages may be there that cannot be reached now, so that an
        empty answer would hide them.
        """
        for reader in self.readers.values():
            if reader.leaving:
                raise misdirected()
            if not self._may_deliver(reader):
                raise unavailable(
                    "subscription",
                    "This forwarder does not hold its lease right now; nothing was delivered.",
                    _RETRY_AFTER_S,
                )
            if reader.tail.failure is not None and reader.starved():
                raise unavailable(
                    "store",
                    "Messages are waiting and the store nodes that hold them do not answer.",
                    _RETRY_AFTER_S,
                )

    def _step_aside(self, waiter: Waiter) -> None:
        if waiter.only_now:
            waiter.end(None)
        else:
            self._blocked[waiter] = None

    def _asked(self, waiter: Waiter) -> Want | None:
        """Return the want of a waiter; None if its own limits leave it nothing."""
        want = waiter.ask()
        if want is None or not self._limits_now().any:
            return want
        room = self.limits.room_of(want.consumer, want.max_messages, self._clock())
        return want if room else None

    def _serve(self, want: Want) -> Delivery | None:
        """Lease messages within all limits for a consumer; None if none are ready."""
        limits, now_s = self._limits_now(), self._clock()
        if limits.any:
            room = limits.room(limits.room_of(want.consumer, want.max_messages, now_s), now_s)
            if not room:
                return None
            want = want._replace(max_messages=room)
        delivery = self._collect(want)
        if delivery is None:
            return None
        limits.take(want.consumer, delivery.count, now_s)  # the messages before decide on later
        if limits.any:
            delivery.counted.append(partial(self._give_back, want.consumer, delivery.count))
        self.delivered += delivery.count
        self._count(delivery)
        self._listeners.worked(self.subscription.uid)
        return delivery

    def _count(self, delivery: Delivery) -> None:
        """Count a delivery in the tenant's usage, until it is withdrawn."""
        if self._usage is NO_LIMITS:
            return
        count, size_bytes = delivery.count, delivery.size_bytes()
        self._note_usage(count, size_bytes)
        delivery.counted.append(partial(self._note_usage, -count, -size_bytes))

    def _note_usage(self, count: int, size_bytes: int) -> None:
        """Add delivered messages and bytes to the tenant's usage."""
        tenant_id = self.subscription.tenant_id
        self._usage.count(tenant_id, DELIVERED_MESSAGES, count)
        self._usage.count(tenant_id, DELIVERED_BYTES, size_bytes)

    def _give_back(self, consumer: str, count: int) -> None:
        self.limits.give_back(consumer, count, self._clock())

    def _limits_now(self) -> RateLimits:
        """Return the rate limits of the subscription as it is now."""
        subscription = self.subscription
        if self._throttling is not None:
            self._said = self._throttling.said(subscription.uid)
        if (subscription, self.share, self._said) != self._limits_of:
            self._limits_of = (subscription, self.share, self._said)
            per_second, each = subscription.rate_limit, subscription.consumer_rate_limit
            said = None if self._said is None else self._said.messages_per_second
            if said:
                per_second = said if per_second is None else min(per_second, said)
            if self.share != 1.0:
                per_second = None if per_second is None else per_second * self.share
                each = None if each is None else each * self.share
            self.limits.follow(per_second, each, self._clock())
        return self.limits

    @property
    def _stopped_by_flow(self) -> bool:
        """Whether a consumer reported that it takes nothing."""
        return self._said is not None and self._said.messages_per_second == 0

    def _collect(self, want: Want) -> Delivery | None:
        """Lease messages without regard to rate limits; lift barriers of growth that are passed."""
        if self.subscription.state == "paused" or self._stopped_by_flow:
            return None
        self.growth.lift(self.readers)
        delivery = self._collect_once(want)
        while delivery is None and self.growth.lift(self.readers):
            delivery = self._collect_once(want)
        return delivery

    def _collect_once(self, want: Want) -> Delivery | None:
        """Lease ready messages from the readers in one pass."""
        new = self.max_outstanding - self.outstanding
        limits = PullLimits(want.max_messages, want.max_bytes, max(0, new), self._turn)
        now_s = self._clock()
        now = Now(int(now_s * 1000), wall_us())
        from_s = max(now_s, want.lease_from_s)
        deadline_ms = int((from_s + self.subscription.ack_deadline_s) * 1000)
        readers = self.open_readers.open_to(want, self.readers, self.growth.partitions, now)
        taken = self.collector.collect(readers, limits, now, deadline_ms) if readers else []
        self._more = limits.more and not taken
        self._emptied = not (limits.full or limits.more or want.places or self.growth.standing)
        self.open_readers.delivered(want, taken)
        if taken:
            self._on_delivered(taken)
        if self._turn.begun and not self._renewing:
            self._renewing = True
            asyncio.get_running_loop().call_soon(self._renew_turn)
        return Delivery(taken) if taken else None

    def _renew_turn(self) -> None:
        self._renewing = False
        self._turn.renew()

    def _idle(self) -> None:
        """Ask for missing messages, end waiters that do not wait, and set the timer."""
        self._stop_timer()
        if self._more:
            self._more = False
            later_s = PENDING_S if self._turn.waits else 0
            self._timer = asyncio.get_running_loop().call_later(later_s, self.dispatch)
            return
        starved = False
        due_ms: int | None = None
        now = Now(int(self._clock() * 1000), wall_us())
        paused = self.subscription.state == "paused" or self._stopped_by_flow
        for reader in () if paused else self.readers.values():
            if reader.idle or not self._may_deliver(reader):
                continue
            starved |= reader.starved() and reader.tail.failure is None
            reader_due = reader.next_due_ms(now)
            if reader_due is not None and (due_ms is None or reader_due < due_ms):
                due_ms = reader_due
        if not starved:
            for waiter in [one for one in self._hasty if one in self._waiting]:
                del self._waiting[waiter]
                waiter.end(None)
        if self.waiting:
            self._set_timer(due_ms)

    def _set_timer(self, due_ms: int | None) -> None:
        """Set the timer for the next deadline, or for the next message that a limit lets go."""
        now_s = self._clock()
        due_s = [] if due_ms is None else [due_ms / 1000]
        gone_s = self.open_readers.affinity.due_s()
        if gone_s is not None:
            due_s.append(gone_s)
        if self._limits_now().any:
            due_s += self._limits_due_s(now_s)
        if self._said is not None:
            due_s.append(self._said.until_s)
        if due_s:
            delay_s = max(0.0, min(due_s) - now_s)
            self._timer = asyncio.get_running_loop().call_later(delay_s + 0.001, self.dispatch)

    def _limits_due_s(self, now_s: float) -> list[float]:
        """Return the times at which a rate limit that holds a consumer back has room again."""
        due_s: list[float | None] = []
        for waiter in [*itertools.islice(self._waiting, 1), *self._blocked]:
            want = waiter.ask()
            if want is None:
                continue
            if not self.limits.room(want.max_messages, now_s):
                due_s.append(self.limits.due_s(want.max_messages, now_s))
            if not self.limits.room_of(want.consumer, want.max_messages, now_s):
                due_s.append(self.limits.due_of_s(want.consumer, want.max_messages, now_s))
        return [one for one in due_s if one is not None]

    def _stop_timer(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
