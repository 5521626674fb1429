"""Bounds what tenants share in a process, such as a number of connections or of bytes.

How to use it. Make one `Shares` for each thing that is bounded, with a limit and a share, and ask
it before anything is done for the caller:

    replays = Shares(64)
    if reason := replays.take(tenant_id):      # FULL or SHARE: nothing is held then
        raise Problem(503, "too-many-replays", …)
    try:
        ...
    finally:
        replays.release(tenant_id)

or `with replays.held_by(tenant_id) as refused:`, if one block covers the whole use. The key is the
tenant's id, or any other key that shares are counted by. Amounts may be bytes. `refusal` asks
without taking.

The rule, for a bound with the limit L and the share s:

1. All together hold at most L.
2. A tenant holds at most s × L, even if it is alone: the next tenant finds room.
3. From three quarters of L on, a tenant holds at most its part of s × L by weight, among all that
   hold something. A tenant that holds less than one may have one, as long as there is room.

`FairQueue` keeps the waiting users of such a bound in turn. It has a list for each tenant, and the
next is of the tenant that has had the least for its weight. `FairSemaphore` joins both for callers
that can wait.

Only `FairSemaphore` waits, and nothing is locked: use each on one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar

from prometheus_client import Counter

FULL = "full"
"""Refusal since the limit is reached by all together."""
SHARE = "share"
"""Refusal since the tenant holds as much as it may; there is room for others."""
CROWDED = 0.75
"""Part of a limit above which each tenant is held to its part."""
DEFAULT_SHARE = 0.5
_MOST_KNOWN = 10_000
_Who = Hashable
T = TypeVar("T")
_REFUSED = Counter(
    "packetboat_bound_refused_total",
    "Times that something was refused because a bound of the process was reached, by bound and "
    "reason: full, or share (its tenant, or address, held as much as it may).",
    ["bound", "reason"],
)


def _alike(_: _Who) -> float:
    return 1.0


class _Holder:
    __slots__ = ("held", "weight")

    def __init__(self, weight: float) -> None:
        self.held: float = 0
        self.weight = weight


class Shares:
    """A bound. Each `take` that returned None needs a `release` with the same arguments."""

    __slots__ = ("_holders", "_present", "_weight_of", "crowded", "held", "limit", "most", "name")

    def __init__(
        self,
        limit: float,
        share: float = DEFAULT_SHARE,
        weight_of: Callable[..., float] = _alike,
        *,
        name: str = "",
    ) -> None:
        """Make a bound; `share` is the part of the limit that one tenant may hold at most.

        `name` is the label under which metrics count refusals of `take`; without one nothing is
        counted.
        """
        assert limit > 0
        assert 0 < share <= 1
        self.name = name
        self.limit = limit
        self.most = share * limit
        """Amount that one tenant may hold."""
        self.crowded = CROWDED * limit
        self.held: float = 0
        """Amount that all together hold."""
        self._holders: dict[_Who, _Holder] = {}
        """Tenants that hold something, and some that did lately."""
        self._present = 0.0
        """Weight of all tenants that hold something."""
        self._weight_of = weight_of

    def of(self, who: _Who) -> float:
        """Return the amount that a tenant holds."""
        holder = self._holders.get(who)
        return 0 if holder is None else holder.held

    def refusal(self, who: _Who, more: float = 1) -> str | None:
        """Return FULL or SHARE, the reason why a tenant may not take `more`; None if it may."""
        after = self.held + more
        if after > self.limit:
            return FULL
        holder = self._holders.get(who)
        own = more if holder is None else holder.held + more
        if own > self.most:
            return SHARE if own > 1 else None
        if after <= self.crowded or own <= 1 or own <= self.part(who):
            return None
        return SHARE

    def part(self, who: _Who) -> float:
        """Return the amount that a tenant may hold while the bound is crowded."""
        return self.most * self.fraction(who)

    def fraction(self, who: _Who) -> float:
        """Return a tenant's weight as part of the weight of all that hold something, itself
        included.
        """
        holder = self._holders.get(who)
        if holder is not None and holder.held:
            return holder.weight / self._present
        weight = self._weight_of(who)
        return weight / (self._present + weight)

    def follow_weights(self) -> None:
        """Read the weights of all holders again, since they may have changed."""
        for who, holder in self._holders.items():
            holder.weight = self._weight_of(who)
        self._present = sum(one.weight for one in self._holders.values() if one.held)

    def take(self, who: _Who, more: float = 1) -> str | None:
        """Take an amount; return why it was refused and nothing has changed, or None."""
        reason = self.refusal(who, more)
        if reason is None:
            self.add(who, more)
        elif self.name:
            _REFUSED.labels(self.name, reason).inc()
        return reason

    def add(self, who: _Who, more: float = 1) -> None:
        """Take an amount without a check, after `refusal` allowed it or where it must be taken."""
        holder = self._holders.get(who) or self._met(who)
        if not holder.held:
            self._present += holder.weight
        holder.held += more
        self.held += more

    def release(self, who: _Who, less: float = 1) -> None:
        """Release an amount that was taken."""
        holder = self._holders[who]
        holder.held -= less
        self.held -= less
        assert holder.held >= 0
        if not holder.held:
            self._present -= holder.weight
            if not self.held:
                self._present = 0.0  # so that rounding errors do not add up

    def _met(self, who: _Who) -> _Holder:
        if len(self._holders) >= _MOST_KNOWN:
            self._holders = {who: one for who, one in self._holders.items() if one.held}
        holder = self._holders[who] = _Holder(self._weight_of(who))
        return holder

    @contextmanager
    def held_by(self, who: _Who, more: float = 1) -> Iterator[str | None]:
        """Hold an amount within the block; yield why it was refused, if it was."""
        reason = self.take(who, more)
        try:
            yield reason
        finally:
            if reason is None:
                self.release(who, more)


class FairQueue(Generic[T]):
    """The waiting users of a bound, in turn.

    The users of one tenant are served in order. The next tenant is the one that has had the least
    for its weight. A tenant that was away starts level with the others.
    """

    __slots__ = ("_had", "_least", "_waiting", "_weight_of")

    def __init__(self, weight_of: Callable[..., float] = _alike) -> None:
        self._waiting: dict[_Who, deque[T]] = {}
        self._had: dict[_Who, float] = {}
        """Amount had by weight, of tenants that waited since the queue was empty, and of some
        others.
        """
        self._least = 0.0
        self._weight_of = weight_of

    def __bool__(self) -> bool:
        """Return whether any user waits."""
        return bool(self._waiting)

    def add(self, who: _Who, one: T) -> None:
        """Append a user to the list of its tenant."""
        waiting = self._waiting.get(who)
        if waiting is None:
            waiting = self._waiting[who] = deque()
            self._had[who] = max(self._least, self._had.get(who, 0.0))
        waiting.append(one)

    def charge(self, who: _Who, amount: float) -> None:
        """Count an amount that a tenant got, in turn or before anyone had to wait."""
        if self._had:
            self._had[who] = self._had.get(who, self._least) + amount / self._weight_of(who)

    def next(self, may: Callable[[_Who], bool] | None = None) -> tuple[_Who, T] | None:
        """Remove and return the next user, of tenants that `may` accepts."""
        ready = self._waiting if may is None else [who for who in self._waiting if may(who)]
        if not ready:
            return None
        who = min(ready, key=self._had.__getitem__)
        self._least = self._had[who]
        waiting = self._waiting[who]
        one = waiting.popleft()
        if not waiting:
            del self._waiting[who]
        return who, one

    def drop(self, who: _Who, one: T) -> None:
        """Remove a user that does not wait any more."""
        waiting = self._waiting.get(who)
        if waiting is not None and one in waiting:
            waiting.remove(one)
            if not waiting:
                del self._waiting[who]
        self.forget_if_empty()

    def forget_if_empty(self) -> None:
        """Drop the amounts that were had, once nobody waits."""
        if not self._waiting:
            self._had.clear()
            self._least = 0.0


class TooManyWaiting(Exception):
    """No more may wait for a turn, of this tenant or of all tenants together."""


class Permit:
    """A permit of a semaphore, which its holder may give back early."""

    __slots__ = ("_had", "_semaphore", "_who")

    def __init__(self, semaphore: FairSemaphore, who: _Who) -> None:
        self._semaphore = semaphore
        self._who = who
        self._had = True

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Give the permit back for the block, in which something else is waited for; then wait for
        another.

        Raises TooManyWaiting.
        """
        self.end()
        yield
        await self._semaphore.acquire(self._who)
        self._had = True

    def end(self) -> None:
        """Give the permit back, so that others may go on; has no effect if that was done before."""
        if self._had:
            self._had = False
            self._semaphore.release(self._who)


class FairSemaphore:
    """A number of permits, of which one tenant has at most its share; the others wait in turn."""

    def __init__(self, at_once: Shares, waiting: Shares) -> None:
        self.at_once = at_once
        self.waiting = waiting
        self._queue: FairQueue[asyncio.Future[None]] = FairQueue()

    @asynccontextmanager
    async def permit(self, who: _Who) -> AsyncIterator[Permit]:
        """Wait for a permit, and hold it for the block. Raises TooManyWaiting."""
        await self.acquire(who)
        permit = Permit(self, who)
        try:
            yield permit
        finally:
            permit.end()

    def release(self, who: _Who) -> None:
        """Give a permit back, and serve the next that waits."""
        self.at_once.release(who)
        self._serve()

    async def acquire(self, who: _Who) -> None:
        """Wait for a permit and hold it. Raises TooManyWaiting."""
        if not self._queue and self.at_once.take(who) is None:
            self._queue.charge(who, 1)
            return
        if self.waiting.take(who) is not None:
            raise TooManyWaiting
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.add(who, told)
        self._serve()
        try:
            await told
        except asyncio.CancelledError:
            if told.done() and not told.cancelled():
                self.at_once.release(who)
            self._queue.drop(who, told)
            self._serve()
            raise
        finally:
            self.waiting.release(who)

    def _serve(self) -> None:
        while found := self._queue.next(lambda who: self.at_once.refusal(who) is None):
            who, told = found
            if told.done():
                continue
            self.at_once.add(who)
            self._queue.charge(who, 1)
            told.set_result(None)
        self._queue.forget_if_empty()
