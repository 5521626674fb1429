"""Modelled endpoints and a sender with an endless backlog, in simulated time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cache
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from metadata.ids import new_uid
from subscribe_forwarder.push.endpoint import Endpoint, EndpointKey
from subscribe_forwarder.push.verdict import Answer, Verdict, judge

STEP_S = 0.005
"""Seconds that a sender which may not send waits at least, if no request ends."""


class Told(NamedTuple):
    """The answer of an endpoint to a request, and its time."""

    at_s: float
    status: int | None
    failure: str = ""


class Model(Protocol):
    def asked(self, now_s: float) -> Told: ...


class Queueing:
    """An endpoint that works on `capacity` requests at once, each for `latency_s` with jitter.

    The rest queue, without a bound.
    """

    def __init__(self, capacity: int, latency_s: float, rng: random.Random) -> None:
        self._free_at_s = [0.0] * capacity
        self._latency_s = latency_s
        self._rng = rng

    def asked(self, now_s: float) -> Told:
        begins_s = max(now_s, heappop(self._free_at_s))
        ends_s = begins_s + self._latency_s * self._rng.lognormvariate(0, 0.3)
        heappush(self._free_at_s, ends_s)
        return Told(ends_s, 200)


class Refusing:
    """An endpoint that works on `capacity` requests at once, and refuses more of them at once."""

    def __init__(self, capacity: int, latency_s: float, status: int = 503) -> None:
        self._capacity = capacity
        self._latency_s = latency_s
        self._status = status
        self._busy: list[float] = []

    def asked(self, now_s: float) -> Told:
        while self._busy and self._busy[0] <= now_s:
            heappop(self._busy)
        if len(self._busy) >= self._capacity:
            return Told(now_s + 0.001, self._status)
        heappush(self._busy, now_s + self._latency_s)
        return Told(now_s + self._latency_s, 200)


class Failing:
    """In front of another: a share of the requests fails as fast, however few come."""

    def __init__(self, model: Model, share: float, rng: random.Random, status: int = 503) -> None:
        self._model = model
        self._share = share
        self._rng = rng
        self._status = status

    def asked(self, now_s: float) -> Told:
        told = self._model.asked(now_s)
        return told._replace(status=self._status) if self._rng.random() < self._share else told


class RateLimited:
    """An endpoint that accepts `per_second` requests a second, and no more than that at once."""

    def __init__(self, per_second: float, latency_s: float) -> None:
        self._per_second = per_second
        self._latency_s = latency_s
        self._tokens = per_second
        self._at_s = 0.0

    def asked(self, now_s: float) -> Told:
        grown = self._tokens + (now_s - self._at_s) * self._per_second
        self._tokens, self._at_s = min(self._per_second, grown), now_s
        if self._tokens < 1:
            return Told(now_s + self._latency_s, 429)
        self._tokens -= 1
        return Told(now_s + self._latency_s, 200)


class Outage:
    """In front of another: from `from_s` to `to_s` nothing works."""

    def __init__(self, model: Model, from_s: float, to_s: float, how: Told) -> None:
        """Set up the outage; the time in `how` counts from the request."""
        self._model = model
        self._from_s, self._to_s = from_s, to_s
        self._how = how

    def asked(self, now_s: float) -> Told:
        if self._from_s <= now_s < self._to_s:
            return self._how._replace(at_s=now_s + self._how.at_s)
        return self._model.asked(now_s)


class Sent(NamedTuple):
    began_s: float
    ended_s: float
    well: bool
    in_flight: int
    """The number of requests in flight when this one began, itself included."""


def run(
    model: Model, until_s: float, seed: int = 1, endpoint: Endpoint | None = None
) -> list[Sent]:
    """Run the model until `until_s`; return all requests in the order in which they ended."""
    return list(sending(model, until_s, endpoint or made(seed)))


def made(seed: int = 1) -> Endpoint:
    return Endpoint(EndpointKey(new_uid(), "https://there:443"), 0.0, random.Random(seed))


def sending(model: Model, until_s: float, endpoint: Endpoint) -> Iterator[Sent]:
    order = itertools.count()
    out: list[tuple[float, int, float, Told, int]] = []
    now_s = 0.0
    while now_s < until_s:
        room = endpoint.room(now_s)
        for _ in range(room):
            endpoint.begin(1, now_s)
            told = model.asked(now_s)
            heappush(out, (told.at_s, next(order), now_s, told, endpoint.limiter.in_flight))
        # Where there was room just now, there is room again when something ends.
        due_s = None if room else endpoint.due_s(now_s)
        if not out or (due_s is not None and due_s < out[0][0]):
            assert due_s is not None, "it would wait for ever"
            now_s = max(due_s, now_s + STEP_S)
            continue
        now_s, _, began_s, told, at_once = heappop(out)
        endpoint.ended(began_s, _verdict_of(told.status, told.failure), now_s)
        yield Sent(began_s, now_s, told.status == 200, at_once)


@cache
def _verdict_of(status: int | None, failure: str) -> Verdict:
    return judge(Answer(status, {}, b"", 0.0, failure), 0.0)
