"""One attack beside the witness: what is measured, and what is a breach of the promise.

The promise is in docs/GUARANTEES.md. A breach counts when it is seen twice: an event that happens
once in the life of a process (a statement is compiled, a heap grows to what it needs) can't be
repeated by anybody. Memory is measured once the server has had the time in which it gives freed
memory back (`gateway.heap`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields

from gateway import heap
from gateway.configuration.settings import ServerSettings
from harness.measure import median, percentile
from tests.abuse import probe
from tests.abuse.site import Site
from tests.loop_cpu import MAX_CALLBACK_MS

MAX_KEPT_MIB = heap.GROWN_BYTES / 2**20 + 8.0
"""Memory that an attack may leave the second time that it is made: growth after which freed memory
is given back, and noise."""
_DEFAULTS = {one.name: one.default for one in fields(ServerSettings)}
MAX_PEAK_MIB = 64.0 + _DEFAULTS["max_unsent_bytes_of_tenant"] / 2**20
"""Memory that may be used while an attack goes on: with answers that a tenant's clients may leave
unread."""
MAX_KEPT_DESCRIPTORS = 64
MAX_LOG_KIB = 256.0
MAX_RATIO = 2.0
"""The witness's p99 may be this multiple of its p99 beside as many ordinary requests."""
LEAST_MS = 50.0
"""A p99 below that hurts nobody, whatever it is a multiple of."""
QUIET_AFTER_S = 3.0 + heap.LOOK_EVERY_S
NEAR_MIB = 4.0
"""Growth at which the server has settled."""
Action = Callable[[], Awaitable[Counter[int]]]


@dataclass
class Seen:
    """The measures of one attack."""

    statuses: Counter[int]
    seconds: float
    callback_ms: float
    callback: str
    other_threads_ms: float
    kept_mib: float
    peak_mib: float
    kept_descriptors: int
    log_kib: float
    publish_ms: list[float]
    refused: list[str]
    gone: bool
    after_mib: float = 0.0
    """The memory of the attacked processes afterwards."""
    pass_ms: float = 0.0
    """The CPU time of the longest pass of an event loop, which is what others wait for; there is
    no bound for it.
    """
    of_pass: str = ""

    @property
    def requests(self) -> int:
        return self.statuses.total()

    @property
    def p99_ms(self) -> float:
        return percentile(self.publish_ms, 99)


@dataclass
class Row:
    """A line of the table: the measures of an attack, and its breaches."""

    name: str
    seen: Seen
    p99_ms: float | None = None
    """The witness's p99, the median of all rounds."""
    ordinary_p99_ms: float | None = None
    """The witness's p99 beside as many ordinary requests."""
    breaches: list[str] = field(default_factory=list)
    samples: int = 0
    """The fewest publishes on which a p99 of the witness stands."""
    refused: int = 0
    """Requests of the witness that were refused beside the attack, in all rounds."""

    @property
    def ratio(self) -> float | None:
        if self.p99_ms is None or not self.ordinary_p99_ms:
            return None
        return self.p99_ms / self.ordinary_p99_ms


async def watched(
    site: Site, action: Action, *, settle: bool = False, settled_mib: float = math.inf
) -> Seen:
    """Return the measures of an attack.

    With `settle`, the server has had time to let go of memory: until it has about what it had
    before, and no more than `settled_mib`.
    """
    before_mib, descriptors, log_bytes = site.memory_mib(), site.descriptors(), site.log_bytes()
    site.forget_peak()
    site.measured()
    site.of_nodes()
    site.seen()
    began_s = time.monotonic()
    statuses = await action()
    took_s = time.monotonic() - began_s
    seen = site.seen() if site.same_server() else None
    if settle:
        await _settled(site, min(before_mib, settled_mib), descriptors)
    if seen is None or not site.same_server():
        return Seen(statuses, took_s, 0.0, "", 0.0, 0.0, 0.0, 0, 0.0, [], [], gone=True)
    # Calm seconds afterwards say nothing about the time that a publish took beside the attack.
    measured, later = await asyncio.to_thread(site.measured), site.seen()
    processes = (measured, *site.of_nodes())
    worst = _longest(each.longest for each in processes)
    passed = _longest(each.passes for each in processes)
    after_mib = site.memory_mib()
    return Seen(
        statuses,
        took_s,
        worst.cpu_ms,
        (f"{worst.route}: {worst.what}" if worst.route != worst.what else worst.what)
        + f" (garbage {measured.collection_ms:.0f})",
        measured.other_cpu_ms,
        after_mib - before_mib,
        site.peak_mib() - before_mib,
        site.descriptors() - descriptors,
        (site.log_bytes() - log_bytes) / 1024,
        seen.publish_ms,
        seen.refused + later.refused,
        gone=False,
        after_mib=after_mib,
        pass_ms=passed.cpu_ms,
        of_pass=passed.what,
    )


def _longest(ranked: Iterable[list[probe.Longest]]) -> probe.Longest:
    """Return the longest of several lists, each of which begins with its longest."""
    firsts = [one for each in ranked for one in each[:1]]
    return max(firsts, key=lambda one: one.cpu_ms, default=probe.NOT_TIMED)


async def _settled(site: Site, memory_mib: float, descriptors: int) -> None:
    """Return when the server has about what it had before, or after some seconds."""
    end_s = time.monotonic() + QUIET_AFTER_S
    while time.monotonic() < end_s and site.same_server():
        if site.memory_mib() - memory_mib < NEAR_MIB and site.descriptors() <= descriptors:
            return
        await asyncio.sleep(0.1)


async def judged(site: Site, name: str, action: Action, *, settle: bool = False) -> Row:
    """Return the row of an attack, which is made again if it looks like a breach."""
    seen = await watched(site, action, settle=settle)
    row = Row(name, seen)
    if breaches(seen) and not seen.gone:
        again = await watched(site, action, settle=True)
        row.breaches = [text for kind, text in breaches(again).items() if kind in breaches(seen)]
        row.seen = again
    else:
        row.breaches = list(breaches(seen).values())
    return row


async def compared(site: Site, name: str, hostile: Action, ordinary: Action, rounds: int) -> Row:
    """Return the row of an attack that takes turns with as many ordinary requests.

    A single round that looks like a breach is followed by a second one. From the end of the first
    round to that of the last, memory may grow as much as in one round.
    """
    attacks: list[Seen] = []
    calm: list[Seen] = []
    while len(attacks) < rounds or (rounds == 1 == len(attacks) and breaches(attacks[0])):
        first_mib = attacks[0].after_mib if attacks else math.inf
        attacks.append(await watched(site, hostile, settle=True, settled_mib=first_mib))
        if attacks[-1].gone:
            break
        calm.append(await watched(site, ordinary))
    worst = max(attacks, key=lambda seen: (seen.gone, len(breaches(seen)), seen.callback_ms))
    row = Row(name, worst)
    often = Counter(kind for seen in attacks for kind in breaches(seen))
    row.breaches = [
        text for kind, text in breaches(worst).items() if often[kind] >= 2 or worst.gone
    ]
    if calm:
        grown_mib = attacks[-1].after_mib - attacks[0].after_mib
        if grown_mib > MAX_KEPT_MIB:
            row.breaches.append(f"{grown_mib:.0f} MiB more than after the first round are kept")
        row.p99_ms = median([seen.p99_ms for seen in attacks])
        row.ordinary_p99_ms = median([seen.p99_ms for seen in calm])
        row.samples = min(len(seen.publish_ms) for seen in (*attacks, *calm))
        row.refused = sum(len(seen.refused) for seen in attacks)
        ratio = row.p99_ms / row.ordinary_p99_ms
        if rounds >= 3 and ratio > MAX_RATIO and row.p99_ms > LEAST_MS:
            row.breaches.append(f"the witness's p99 is {ratio:.1f} times that beside as many")
    return row


def breaches(seen: Seen) -> dict[str, str]:
    """Return the breaches of the promise, by kind."""
    if seen.gone:
        return {"gone": "the server has ended"}
    found = {}
    if seen.callback_ms > MAX_CALLBACK_MS:
        found["callback"] = f"a callback took {seen.callback_ms:.0f} ms ({seen.callback})"
    if seen.kept_mib > MAX_KEPT_MIB:
        found["kept"] = f"{seen.kept_mib:.0f} MiB are kept"
    if seen.peak_mib > MAX_PEAK_MIB:
        found["peak"] = f"{seen.peak_mib:.0f} MiB were used"
    if seen.kept_descriptors > MAX_KEPT_DESCRIPTORS:
        found["descriptors"] = f"{seen.kept_descriptors} connections are kept"
    if seen.log_kib > MAX_LOG_KIB:
        found["log"] = f"{seen.log_kib:.0f} KiB were logged"
    if seen.refused:
        several = Counter(seen.refused).most_common(2)
        found["refused"] = f"{len(seen.refused)} of the witness refused: {several}"
    return found


def table(rows: list[Row]) -> str:
    """Return a table in Markdown: breaches first, then by the longest callback."""
    lines = [
        "| attack | requests | longest callback, ms | in | longest pass, ms | of"
        " | kept, MiB | peak, MiB | other threads, s | witness p50 / p99, ms | refused"
        " | median p99, ms | beside ordinary, ms | × ordinary"
        " | breaches |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (not row.breaches, -row.seen.callback_ms)):
        seen = row.seen
        medians = [row.p99_ms, row.ordinary_p99_ms, row.ratio]
        shown = ["" if each is None else f"{each:.1f}" for each in medians]
        lines.append(
            f"| {row.name} | {seen.requests} | {seen.callback_ms:.1f} | {seen.callback} "
            f"| {seen.pass_ms:.1f} | {seen.of_pass} "
            f"| {seen.kept_mib:.0f} | {seen.peak_mib:.0f} | {seen.other_threads_ms / 1000:.1f} "
            f"| {percentile(seen.publish_ms, 50):.0f} / {seen.p99_ms:.0f} | {len(seen.refused)} "
            f"| {' | '.join(shown)} | {'; '.join(row.breaches)} |"
        )
    return "\n".join(lines)


def witness_table(rows: list[Row], proofs: Mapping[str, int]) -> str:
    """Return what the witness saw, in Markdown, by the number of the audit's proof."""
    lines = [
        "| proof | attack | witness p99, ms | beside as many ordinary, ms | × | refused"
        " | publishes of a p99 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: proofs[row.name]):
        shown = [row.p99_ms, row.ordinary_p99_ms, row.ratio]
        numbers = " | ".join("" if each is None else f"{each:.1f}" for each in shown)
        lines.append(
            f"| {proofs[row.name]} | {row.name} | {numbers} | {row.refused} | {row.samples} |"
        )
    return "\n".join(lines)
