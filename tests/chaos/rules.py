"""The answers to publishers, held against the log.

The rules, for every partition of the topic:

1. an acknowledged message is in the log, at the partition and offset that the answer named;
2. a message that was answered *not done* is not in the log;
3. offsets begin at 0 and have no gap: each is one more than the one before;
4. no message is there twice: a forwarder's session repeats nothing, and one that was sent to a
   partition moves to another only if it was not stored there;
5. messages of a key are in one partition, in the order they were sent (a publisher sends the next
   of a key once the last is answered; one that it gave up may be stored at any time after);
6. real-time order: a message sent after another was acknowledged has the greater offset.

And for the deliveries to a subscription's consumers:

7. every message of the log was delivered and acked, and nothing else was;
8. an ack that was answered 200 holds: no pull sent after it delivers the message again.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.history import Delivery, Logs, Outcome, Publish

MAX_REPORTED_PER_RULE = 5


@dataclass(slots=True)
class Verdict:
    """Broken rules, in words; none is what we want."""

    violations: list[str] = field(default_factory=list)
    acked: int = 0
    not_done: int = 0
    unknown: int = 0
    stored: int = 0
    unknown_but_stored: int = 0
    deliveries: int = 0
    """The deliveries to consumers, repeated ones counted each time."""

    def require(self) -> None:
        """Raises AssertionError with the violations."""
        assert not self.violations, "\n".join(self.violations)


class _Report:
    """Collects violations, a few of each rule."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._seen: defaultdict[str, int] = defaultdict(int)

    def broken(self, rule: str, what: str) -> None:
        self._seen[rule] += 1
        if self._seen[rule] <= MAX_REPORTED_PER_RULE:
            self._verdict.violations.append(f"{rule}: {what}")

    def close(self) -> None:
        for rule, count in self._seen.items():
            if count > MAX_REPORTED_PER_RULE:
                self._verdict.violations.append(f"{rule}: {count} in all")


def check(history: Sequence[Publish], logs: Logs) -> Verdict:
    """Hold a whole history against whole logs, read after the last publish was answered."""
    verdict = Verdict(stored=sum(len(log) for log in logs.values()))
    report = _Report(verdict)
    _check_offsets(logs, report)
    places = _places(logs)
    _check_copies(places, history, report)
    _check_outcomes(history, logs, places, report, verdict)
    _check_keys(history, places, report)
    _check_real_time(history, report)
    report.close()
    return verdict


def check_deliveries(deliveries: Sequence[Delivery], logs: Logs) -> Verdict:
    """Hold what consumers were given against whole logs, once they have had time for all of it."""
    verdict = Verdict(stored=sum(len(log) for log in logs.values()))
    report = _Report(verdict)
    payloads = {
        (partition, stored.offset): stored.payload
        for partition, log in logs.items()
        for stored in log
    }
    acked: dict[tuple[int, int], float] = {}
    for delivery in sorted(deliveries, key=lambda delivery: delivery.pulled_s):
        at = (delivery.partition, delivery.offset)
        if payloads.get(at) != delivery.payload:
            report.broken("delivered", f"{delivery.payload!r} at {at}: there {payloads.get(at)!r}")
        if acked.get(at, delivery.pulled_s) < delivery.pulled_s:
            report.broken("ack", f"{delivery.payload!r} at {at} was given again after its ack")
        if delivery.acked_s:
            acked[at] = min(acked.get(at, delivery.acked_s), delivery.acked_s)
    verdict.acked = len(acked)
    for at in payloads.keys() - {(each.partition, each.offset) for each in deliveries}:
        report.broken("undelivered", f"{payloads[at]!r} at {at}")
    found = {(each.partition, each.offset) for each in deliveries if each.found_acked}
    for at in payloads.keys() - acked.keys() - found:
        report.broken("unacked", f"{payloads[at]!r} at {at}")
    report.close()
    return verdict


def _places(logs: Logs) -> dict[str, list[tuple[int, int]]]:
    """Return payload → every (partition, offset) where it is."""
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for partition, log in logs.items():
        for stored in log:
            places[stored.payload].append((partition, stored.offset))
    return places


def _check_offsets(logs: Logs, report: _Report) -> None:
    for partition, log in logs.items():
        if log and log[0].offset != 0:
            report.broken("offsets", f"partition {partition} begins at {log[0].offset}")
        for before, after in itertools.pairwise(log):
            if after.offset != before.offset + 1:
                report.broken(
                    "offsets", f"partition {partition}: {after.offset} follows {before.offset}"
                )


def _check_copies(
    places: Mapping[str, Sequence[tuple[int, int]]], history: Iterable[Publish], report: _Report
) -> None:
    sent = {publish.payload for publish in history}
    for payload, found in places.items():
        if payload not in sent:
            report.broken("invented", f"{payload!r} at {found[0]} was never sent")
        elif len(found) > 1:
            report.broken("duplicate", f"{payload!r} is at {found}")


def _check_outcomes(
    history: Iterable[Publish],
    logs: Logs,
    places: Mapping[str, Sequence[tuple[int, int]]],
    report: _Report,
    verdict: Verdict,
) -> None:
    for publish in history:
        found = places.get(publish.payload, ())
        match publish.outcome:
            case Outcome.ACKED:
                verdict.acked += 1
                if (publish.partition, publish.offset) not in found:
                    at = _stored_at(logs, publish.partition, publish.offset)
                    report.broken(
                        "acknowledged",
                        f"{publish.payload!r} was acknowledged at {publish.partition}/"
                        f"{publish.offset}; there is {at!r}, and it is at {list(found)}",
                    )
            case Outcome.NOT_DONE:
                verdict.not_done += 1
                if found:
                    report.broken(
                        "not done",
                        f"{publish.payload!r} was answered {publish.reason!r} and is at {found}",
                    )
            case Outcome.UNKNOWN:
                verdict.unknown += 1
                verdict.unknown_but_stored += bool(found)


def _stored_at(logs: Logs, partition: int, offset: int) -> str | None:
    log = logs.get(partition, ())
    at = offset - log[0].offset if log else 0
    return log[at].payload if 0 <= at < len(log) else None


def _check_keys(
    history: Iterable[Publish],
    places: Mapping[str, Sequence[tuple[int, int]]],
    report: _Report,
) -> None:
    by_key: defaultdict[str, list[Publish]] = defaultdict(list)
    for publish in history:
        if publish.key is not None and publish.payload in places:
            by_key[publish.key].append(publish)
    for key, publishes in by_key.items():
        publishes.sort(key=lambda publish: publish.sent_s)
        found = [places[publish.payload][0] for publish in publishes]
        if len({partition for partition, _ in found}) > 1:
            report.broken("key", f"{key!r} is in partitions {sorted({p for p, _ in found})}")
        highest = -1
        for (_, offset), publish in zip(found, publishes, strict=True):
            if offset < highest:
                report.broken("key", f"{key!r}: {publish.payload!r} at {offset} after {highest}")
            if not publish.abandoned:
                highest = max(highest, offset)


def _check_real_time(history: Iterable[Publish], report: _Report) -> None:
    by_partition: defaultdict[int, list[Publish]] = defaultdict(list)
    for publish in history:
        if publish.outcome is Outcome.ACKED:
            by_partition[publish.partition].append(publish)
    for partition, publishes in by_partition.items():
        publishes.sort(key=lambda publish: publish.offset, reverse=True)
        earliest: Publish | None = None
        """The publish answered first among those with a greater offset."""
        for publish in publishes:
            if earliest is not None and earliest.answered_s < publish.sent_s:
                report.broken(
                    "real time",
                    f"partition {partition}: {publish.payload!r} at {publish.offset} was sent"
                    f" after {earliest.payload!r} at {earliest.offset} was acknowledged",
                )
            if earliest is None or publish.answered_s < earliest.answered_s:
                earliest = publish
