"""The answers to callers of every other command, held against the log: pure rules.

* ids: a message sent again with its id, however the first try ended, is there exactly once, where
every answer says; * delays: a staged message is released exactly once or discarded, never early,
and its offset is final; * truncations: nothing above the last one is missing, the kept messages
are readable, nothing else is; * counters: the acknowledged steps are one chain in real-time
order, no refused step is on it.

Every rule returns violations in words; none is what we want.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.history import CounterTry, Outcome, Publish, Stored


@dataclass(slots=True)
class Delayed:
    """A message that was staged. `dues_us`: any of these may be its due time (0: held)."""

    payload: str
    stage_number: int
    dues_us: list[int]
    offset: int = -1
    """The offset that a release told; −1: none did."""
    discard_asked: bool = False


@dataclass(slots=True)
class Trimmed:
    """A queue that is truncated now and then, and what was appended to it."""

    acked: dict[int, str] = field(default_factory=dict)
    """Offset → payload."""
    first: int = 0
    keep: tuple[int, ...] = ()
    """The offsets kept by the last truncation; every one was readable when it was asked for."""


Places = Mapping[str, Sequence[Stored]]


def places_of(log: Iterable[Stored]) -> dict[str, list[Stored]]:
    """Payload → everywhere it is."""
    places: defaultdict[str, list[Stored]] = defaultdict(list)
    for stored in log:
        places[stored.payload].append(stored)
    return dict(places)


def check_ids(sent: Sequence[Publish], log: Iterable[Stored]) -> list[str]:
    """Check one queue that only takes messages with ids, each sent until it was answered."""
    places, broken = places_of(log), []
    known = {publish.payload for publish in sent}
    for payload, found in places.items():
        if payload not in known:
            broken.append(f"{payload!r} was never sent")
        if len(found) > 1:
            broken.append(f"{payload!r} is at {[stored.offset for stored in found]}")
    for publish in sent:
        offsets = [stored.offset for stored in places.get(publish.payload, ())]
        if publish.outcome is Outcome.ACKED and offsets != [publish.offset]:
            broken.append(f"{publish.payload!r} was answered {publish.offset} and is at {offsets}")
    return broken


def check_delays(
    staged: Iterable[Delayed], states: Mapping[int, tuple[str, int | None]], log: Iterable[Stored]
) -> list[str]:
    """Check the staged messages.

    `states`: stage number → the answer of `locate` at the end, when none waits any more. Payloads
    in the log that are not in `staged` are of stages without an answer: once, then.
    """
    places, broken = places_of(log), []
    for payload, found in places.items():
        if len(found) > 1:
            broken.append(f"{payload!r} was released to {[stored.offset for stored in found]}")
    for message in staged:
        found = list(places.get(message.payload, ()))
        offsets = [stored.offset for stored in found]
        state, offset = states[message.stage_number]
        if state == "offset":
            if offsets != [offset]:
                broken.append(f"{message.payload!r} should be at {offset} and is at {offsets}")
            if found and found[0].log_time_us < min(message.dues_us):
                early_us = min(message.dues_us) - found[0].log_time_us
                broken.append(f"{message.payload!r} was released {early_us} µs early")
        elif state == "discarded":
            if offsets or not message.discard_asked:
                broken.append(f"{message.payload!r} is discarded, and at {offsets}")
        else:
            broken.append(f"{message.payload!r} is {state}")
        if message.offset >= 0 and offsets != [message.offset]:
            broken.append(f"{message.payload!r} was given {message.offset} and is at {offsets}")
    return broken


def check_trims(trimmed: Trimmed, first: int, log: Iterable[Stored]) -> list[str]:
    """Check the truncations; `log`: the readable offsets, the kept ones below `first` too."""
    broken = []
    if first != trimmed.first:
        broken.append(f"the first offset is {first}, truncated to {trimmed.first}")
    found = {stored.offset: stored.payload for stored in log}
    for offset, payload in trimmed.acked.items():
        readable = offset >= trimmed.first or offset in trimmed.keep
        if readable and found.get(offset) != payload:
            broken.append(f"{payload!r} should be at {offset}: there is {found.get(offset)!r}")
        if not readable and offset in found:
            broken.append(f"{payload!r} at {offset} was truncated and is there")
    broken += [f"{times} × {payload!r}" for payload, times in _repeated(found.values())]
    return broken


def _repeated(payloads: Iterable[str]) -> list[tuple[str, int]]:
    return [(payload, times) for payload, times in Counter(payloads).items() if times > 1]


def check_counter(tries: Iterable[CounterTry], final: int) -> list[str]:
    """A counter that began at 0 and is `final` now."""
    by_new = {one.new: one for one in tries}
    chain: list[CounterTry] = []
    at = final
    while at != 0:
        step = by_new.get(at)
        if step is None or len(chain) > len(by_new):
            return [f"nobody set it to {at}"]
        chain.append(step)
        at = step.expected
    broken = [
        f"{one} was refused and took effect" for one in chain if one.outcome is Outcome.NOT_DONE
    ]
    on_chain = {one.new for one in chain}
    broken += [
        f"{one} was acknowledged and is lost"
        for one in by_new.values()
        if one.outcome is Outcome.ACKED and one.new not in on_chain
    ]
    earliest: CounterTry | None = None
    """The step answered first, among the steps after this one (the chain runs backwards)."""
    for step in chain:
        if earliest is not None and earliest.answered_s < step.sent_s:
            broken.append(f"{step} was sent after a later step was answered: {earliest}")
        acked = step.outcome is Outcome.ACKED
        if acked and (earliest is None or step.answered_s < earliest.answered_s):
            earliest = step
    return broken
