"""Faults on the way between clients and the server, drawn from seeds.

Whether a request has a fault is drawn from the rule's seed, the request's line, and how many of
that line there were before: the same test has the same faults, in whatever order requests of
several clients come. A seed that is not given is drawn, and told where the test fails.
"""

from __future__ import annotations

import enum
import secrets
import threading
from collections import Counter
from dataclasses import dataclass
from random import Random

MAX_CUT_BYTES = 2_000


class Fault(enum.Enum):
    """The kinds of faults of a request.

    At the moment of the fault the client cannot tell them apart.
    """

    DROP_REQUEST = "drop_requests"
    DROP_REPLY = "drop_replies"
    DUPLICATE = "duplicate"
    DELAY = "delay"
    CUT_REPLY = "cut_replies"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault and its rate."""

    fault: Fault
    rate: float
    seed: int
    on: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Fate:
    """The faults of one request."""

    faults: frozenset[Fault] = frozenset()
    delay_s: float = 0.0
    cut_after_bytes: int = 0
    late_s: float = 0.0


class Faults:
    """The faults of one test; they may be changed while requests are in progress."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._had: list[Rule] = []
        self._seen: Counter[str] = Counter()
        self.counts: Counter[Fault] = Counter()
        """The number of faults of each kind: a test of faults that had none proves nothing."""
        self.requests: int = 0

    def drop_requests(self, rate: float = 1.0, *, seed: int | None = None, on: str = "") -> None:
        """Drop requests: they never arrive, and the connection breaks.

        `on` is the start of the request lines to which it applies, such as `POST /topics`.
        """
        self._add(Fault.DROP_REQUEST, rate, seed, on)

    def drop_replies(self, rate: float = 1.0, *, seed: int | None = None, on: str = "") -> None:
        """Drop replies: the request takes effect, and the connection breaks before the answer."""
        self._add(Fault.DROP_REPLY, rate, seed, on)

    def duplicate(self, rate: float = 1.0, *, seed: int | None = None, on: str = "") -> None:
        """Duplicate requests: they arrive twice; the answer is that to the second."""
        self._add(Fault.DUPLICATE, rate, seed, on)

    def delay(
        self, rate: float = 1.0, *, seconds: float, seed: int | None = None, on: str = ""
    ) -> None:
        """Delay requests by up to `seconds` of real time."""
        self._add(Fault.DELAY, rate, seed, on, seconds)

    def cut_replies(self, rate: float = 1.0, *, seed: int | None = None, on: str = "") -> None:
        """Cut the connection within the answer, or within a stream's first 2,000 bytes."""
        self._add(Fault.CUT_REPLY, rate, seed, on)

    def late(
        self, rate: float = 1.0, *, seconds: float, seed: int | None = None, on: str = ""
    ) -> None:
        """Cut the connection and deliver the requests up to `seconds` later: perhaps
        after those that the client sent in their place.
        """
        self._add(Fault.LATE, rate, seed, on, seconds)

    def stop(self) -> None:
        """Make no more faults from now on."""
        with self._lock:
            self._rules.clear()

    def fate(self, line: str) -> Fate:
        """Return the faults of the next request with that line."""
        with self._lock:
            self.requests += 1
            if not self._rules:
                return Fate()
            self._seen[line] += 1
            found, delay_s, late_s, cut = set(), 0.0, 0.0, 0
            for rule in self._rules:
                draw = Random(f"{rule.seed} {rule.fault.value} {line} {self._seen[line]}")
                if not line.startswith(rule.on) or draw.random() >= rule.rate:
                    continue
                found.add(rule.fault)
                self.counts[rule.fault] += 1
                if rule.fault is Fault.LATE:
                    late_s = draw.uniform(0, rule.seconds)
                else:
                    delay_s += draw.uniform(0, rule.seconds)
                cut = draw.randint(1, MAX_CUT_BYTES)
            return Fate(frozenset(found), delay_s, cut, late_s)

    def report(self) -> list[str]:
        """Return the lines that reproduce the faults in a test that failed."""
        with self._lock:
            if not self._had:
                return []
            lines = [
                f"packetboat.faults.{rule.fault.value}({rule.rate}, seed={rule.seed}"
                + (f", on={rule.on!r}" if rule.on else "")
                + (f", seconds={rule.seconds}" if rule.seconds else "")
                + f")  # {self.counts[rule.fault]} times"
                for rule in self._had
            ]
            return [*lines, f"# of {self.requests} requests"]

    def _add(
        self, fault: Fault, rate: float, seed: int | None, on: str, seconds: float = 0.0
    ) -> None:
        if not 0 <= rate <= 1:
            raise ValueError("rate is a part of all requests, from 0 to 1")
        seed = secrets.randbelow(1_000_000) if seed is None else seed
        rule = Rule(fault, rate, seed, on, seconds)
        with self._lock:
            self._rules.append(rule)
            self._had.append(rule)
