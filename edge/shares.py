"""A bound of a process that tenants share: at most so many here, of one tenant at most its share.

How to use it. Make one `Shares` for each thing that is bounded, with a limit and a share, and ask
it before anything is done for the caller:

    replays = Shares(64)
    if reason := replays.take(tenant_id):      # FULL or SHARE: nothing is held then
        raise Problem(503, "too-many-replays", …)
    try:
        ...
    finally:
        replays.release(tenant_id)

or `with replays.held_by(tenant_id) as refused:`, where one block covers the whole use. The key is
the tenant's id, or whatever else shares are of: connections use `of_address`, by which all
addresses of an IPv6 /64 are one. Amounts may be bytes. `refusal` asks without taking.

The rule, of a bound with the limit L and the share s:

1. All together hold at most L.
2. One tenant holds at most s × L, also where nobody else is there: what comes next finds room.
3. From three quarters of L on, a tenant holds at most its part of s × L by weight, of all who hold
   something. Who holds less than one may have one, as long as there is room.

`Line` keeps those who wait for such a bound in turn: a line for each tenant, and next is who has
had the least for its weight. `Turns` joins both for callers that can wait.

Nothing here waits but `Turns`, and nothing is locked: use each on one event loop.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Generic, TypeVar

from prometheus_client import Counter

FULL = "full"
"""All that there is of it is held."""
SHARE = "share"
"""Its tenant holds as much as it may, and there is more for others."""
CROWDED = 0.75
"""Of a limit: from here on, only who is within its part goes on."""
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
    """One bound. Each `take` that returned None has its `release`, same arguments."""

    __slots__ = ("_holders", "_present", "_weight_of", "crowded", "held", "limit", "most", "name")

    def __init__(
        self,
        limit: float,
        share: float = DEFAULT_SHARE,
        weight_of: Callable[..., float] = _alike,
        *,
        name: str = "",
    ) -> None:
        """`share`: the part of the limit that one tenant may hold at most. `name`: by which metrics
        count what `take` refuses; without one nothing is counted."""
        assert limit > 0
        assert 0 < share <= 1
        self.name = name
        self.limit = limit
        self.most = share * limit
        """What one tenant may hold."""
        self.crowded = CROWDED * limit
        self.held: float = 0
        """By all together."""
        self._holders: dict[_Who, _Holder] = {}
        """Those who hold something, and some who lately did."""
        self._present = 0.0
        """The weight of all who hold something."""
        self._weight_of = weight_of

    def of(self, who: _Who) -> float:
        """What it holds."""
        holder = self._holders.get(who)
        return 0 if holder is None else holder.held

    def refusal(self, who: _Who, more: float = 1) -> str | None:
        """Why it may not have so much more: FULL or SHARE. None: it may."""
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
        """What it may hold while the bound is crowded."""
        return self.most * self.fraction(who)

    def fraction(self, who: _Who) -> float:
        """Its weight, of the weight of all who hold something and its own."""
        holder = self._holders.get(who)
        if holder is not None and holder.held:
            return holder.weight / self._present
        weight = self._weight_of(who)
        return weight / (self._present + weight)

    def follow_weights(self) -> None:
        """They may be other than before."""
        for who, holder in self._holders.items():
            holder.weight = self._weight_of(who)
        self._present = sum(one.weight for one in self._holders.values() if one.held)

    def take(self, who: _Who, more: float = 1) -> str | None:
        """None: it is held from now on. Else why not, and nothing has changed."""
        reason = self.refusal(who, more)
        if reason is None:
            self.add(who, more)
        elif self.name:
            _REFUSED.labels(self.name, reason).inc()
        return reason

    def add(self, who: _Who, more: float = 1) -> None:
        """Holds so much more of it without a question: `refusal` was asked, or it has to be."""
        holder = self._holders.get(who) or self._met(who)
        if not holder.held:
            self._present += holder.weight
        holder.held += more
        self.held += more

    def release(self, who: _Who, less: float = 1) -> None:
        """Of what was taken."""
        holder = self._holders[who]
        holder.held -= less
        self.held -= less
        assert holder.held >= 0
        if not holder.held:
            self._present -= holder.weight
            if not self.held:
                self._present = 0.0  # no rounding adds up

    def _met(self, who: _Who) -> _Holder:
        if len(self._holders) >= _MOST_KNOWN:
            self._holders = {who: one for who, one in self._holders.items() if one.held}
        holder = self._holders[who] = _Holder(self._weight_of(who))
        return holder

    @contextmanager
    def held_by(self, who: _Who, more: float = 1) -> Iterator[str | None]:
        """Held within the block, unless it is told why not."""
        reason = self.take(who, more)
        try:
            yield reason
        finally:
            if reason is None:
                self.release(who, more)


class Line(Generic[T]):
    """Who waits, in turn: first come first served of one tenant; of tenants, who has had the least
    for its weight. A tenant that was away starts level with the others."""

    __slots__ = ("_had", "_least", "_lines", "_weight_of")

    def __init__(self, weight_of: Callable[..., float] = _alike) -> None:
        self._lines: dict[_Who, deque[T]] = {}
        self._had: dict[_Who, float] = {}
        """By weight, of those who have waited since there was a line, and more."""
        self._least = 0.0
        self._weight_of = weight_of

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, who: _Who, one: T) -> None:
        """It waits from now on."""
        line = self._lines.get(who)
        if line is None:
            line = self._lines[who] = deque()
            self._had[who] = max(self._least, self._had.get(who, 0.0))
        line.append(one)

    def charge(self, who: _Who, amount: float) -> None:
        """So much was had, in turn or before there was a line to wait in."""
        if self._had:
            self._had[who] = self._had.get(who, self._least) + amount / self._weight_of(who)

    def next(self, may: Callable[[_Who], bool] | None = None) -> tuple[_Who, T] | None:
        """Takes the next out of the line, of tenants that may now."""
        ready = self._lines if may is None else [who for who in self._lines if may(who)]
        if not ready:
            return None
        who = min(ready, key=self._had.__getitem__)
        self._least = self._had[who]
        line = self._lines[who]
        one = line.popleft()
        if not line:
            del self._lines[who]
        return who, one

    def drop(self, who: _Who, one: T) -> None:
        """It does not wait any more."""
        line = self._lines.get(who)
        if line is not None and one in line:
            line.remove(one)
            if not line:
                del self._lines[who]
        self.settle()

    def settle(self) -> None:
        """Forgets who had what, once nobody waits."""
        if not self._lines:
            self._had.clear()
            self._least = 0.0


class TooManyWaiting(Exception):
    """As many of its tenant, or of all, wait for a turn as may."""


class Turn:
    """One that is had."""

    __slots__ = ("_had", "_turns", "_who")

    def __init__(self, turns: Turns, who: _Who) -> None:
        self._turns = turns
        self._who = who
        self._had = True

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Gives it back for the block, in which something else is waited for; then it waits for
        another. TooManyWaiting."""
        self.end()
        yield
        await self._turns.begin(self._who)
        self._had = True

    def end(self) -> None:
        """Others may go on. Again is no error."""
        if self._had:
            self._had = False
            self._turns.ended(self._who)


class Turns:
    """So many at once, of one tenant at most its share; the others wait in turn."""

    def __init__(self, at_once: Shares, waiting: Shares) -> None:
        self.at_once = at_once
        self.waiting = waiting
        self._line: Line[asyncio.Future[None]] = Line()

    @asynccontextmanager
    async def turn(self, who: _Who) -> AsyncIterator[Turn]:
        """Returns when it is its turn, which lasts for the block. TooManyWaiting."""
        await self.begin(who)
        turn = Turn(self, who)
        try:
            yield turn
        finally:
            turn.end()

    def ended(self, who: _Who) -> None:
        """For `Turn`."""
        self.at_once.release(who)
        self._serve()

    async def begin(self, who: _Who) -> None:
        """For `Turn`."""
        if not self._line and self.at_once.take(who) is None:
            self._line.charge(who, 1)
            return
        if self.waiting.take(who) is not None:
            raise TooManyWaiting
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.add(who, told)
        self._serve()
        try:
            await told
        except asyncio.CancelledError:
            if told.done() and not told.cancelled():
                self.at_once.release(who)
            self._line.drop(who, told)
            self._serve()
            raise
        finally:
            self.waiting.release(who)

    def _serve(self) -> None:
        while found := self._line.next(lambda who: self.at_once.refusal(who) is None):
            who, told = found
            if told.done():
                continue
            self.at_once.add(who)
            self._line.charge(who, 1)
            told.set_result(None)
        self._line.settle()


def of_address(host: str) -> str:
    """What a connection of that address is counted under: an IPv6 address by its /64, since one
    host has as many of these as it likes. What is no address stays as it is."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
