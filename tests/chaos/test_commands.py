"""Every command at work while leaders die and hang; and the rules that judge it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.cluster import NODES, ChaosCluster
from tests.chaos.command_history import (
    Delayed,
    Trimmed,
    check_counter,
    check_delays,
    check_ids,
    check_trims,
)
from tests.chaos.command_load import GROUPS_USED, CommandLoad
from tests.chaos.history import CounterTry, Outcome, Publish, Stored
from tests.chaos.scenarios import Torture

MIB = 1024 * 1024


async def test_every_command_holds_while_leaders_die_and_hang(tmp_path: Path) -> None:
    async with (
        ChaosCluster(tmp_path, store_only=True, segment_bytes=MIB) as cluster,
        await Torture.on_store(cluster, per_second=50, keys=2) as torture,
    ):
        load = await CommandLoad.on(cluster, seed=1)
        load.start()
        torture.workload.start()
        await asyncio.sleep(1)
        for node in NODES:
            cluster.kill_node(node)
            await asyncio.sleep(1)
            cluster.start_node(node)
            await torture.until_caught_up(node)
        cluster.pause_node(await torture.leader_of(0))
        await asyncio.sleep(2)
        for node in NODES:
            cluster.resume_node(node)
        await asyncio.sleep(2)
        for turn in range(12):  # which situations came is up to the processes' timing
            if not load.sometimes.missing:
                break
            leader = await torture.leader_of(turn % len(GROUPS_USED))
            cluster.pause_node(leader)
            await asyncio.sleep(2)
            cluster.resume_node(leader)
            await asyncio.sleep(1)
        await load.verify()
        await torture.verify()
        load.sometimes.require()
        await load.close()


def stored(offset: int, payload: str, log_time_us: int = 0) -> Stored:
    return Stored(offset, payload, None, log_time_us)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ([stored(0, "a"), stored(1, "b")], []),
        ([stored(0, "a"), stored(1, "b"), stored(2, "a")], ["'a' is at", "'a' was answered 0"]),
        ([stored(0, "b")], ["'a' was answered 0"]),
        ([stored(0, "a"), stored(1, "x")], ["'x' was never sent"]),
    ],
)
def test_ids_are_judged(log: list[Stored], said: list[str]) -> None:
    a = Publish("a", None, 0.0, 1.0, Outcome.ACKED, 0, 0)
    found = check_ids([a, Publish("b", None, 0.0)], log)
    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("message", "state", "log", "said"),
    [
        (Delayed("a", 0, [50], 3), ("offset", 3), [stored(3, "a", 50)], None),
        (Delayed("a", 0, [50], 3), ("offset", 3), [stored(3, "a", 49)], "early"),
        (Delayed("a", 0, [90, 50], 3), ("offset", 3), [stored(3, "a", 60)], None),
        (Delayed("a", 0, [0], 3), ("offset", 4), [stored(4, "a")], "was given 3"),
        (Delayed("a", 0, [0]), ("offset", 4), [stored(4, "a"), stored(5, "a")], "released to"),
        (Delayed("a", 0, [0]), ("offset", 4), [], "should be at 4"),
        (Delayed("a", 0, [0]), ("discarded", None), [], "is discarded"),
        (Delayed("a", 0, [0], discard_asked=True), ("discarded", None), [], None),
        (Delayed("a", 0, [0], discard_asked=True), ("discarded", None), [stored(1, "a")], "at [1]"),
        (Delayed("a", 0, [0]), ("staged", None), [], "is staged"),
    ],
)
def test_delays_are_judged(
    message: Delayed, state: tuple[str, int | None], log: list[Stored], said: str | None
) -> None:
    found = check_delays([message], {0: state}, log)
    assert bool(found) == (said is not None)
    assert said is None or said in found[0]


@pytest.mark.parametrize(
    ("first", "log", "broken"),
    [
        (2, [stored(0, "a"), stored(2, "c")], 0),
        (1, [stored(0, "a"), stored(2, "c")], 1),
        (2, [stored(2, "c")], 1),
        (2, [stored(0, "a"), stored(1, "b"), stored(2, "c")], 1),
        (2, [stored(0, "a"), stored(2, "a")], 2),
    ],
    ids=["good", "first", "kept is gone", "truncated is there", "another's"],
)
def test_truncations_are_judged(first: int, log: list[Stored], broken: int) -> None:
    trimmed = Trimmed({0: "a", 1: "b", 2: "c"}, first=2, keep=(0,))
    assert len(check_trims(trimmed, first, log)) == broken


ACKED, NOT_DONE, UNKNOWN = Outcome.ACKED, Outcome.NOT_DONE, Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("outcomes", "final", "said"),
    [
        ((ACKED, ACKED), 2, None),
        ((ACKED, UNKNOWN), 1, None),
        ((ACKED, UNKNOWN), 2, None),
        ((ACKED, NOT_DONE), 2, "was refused and took effect"),
        ((ACKED, ACKED), 1, "was acknowledged and is lost"),
        ((ACKED, ACKED), 0, "was acknowledged and is lost"),
        ((ACKED, ACKED), 7, "nobody set it to 7"),
    ],
)
def test_counters_are_judged(
    outcomes: tuple[Outcome, Outcome], final: int, said: str | None
) -> None:
    tries = [
        CounterTry(number, number + 1, number, number + 0.5, outcome)
        for number, outcome in enumerate(outcomes)
    ]
    found = check_counter(tries, final)
    assert bool(found) == (said is not None)
    assert said is None or said in found[0]


def test_a_counter_step_before_its_time_is_found() -> None:
    late = CounterTry(0, 1, sent_s=5.0, answered_s=6.0, outcome=ACKED)
    early = CounterTry(1, 2, sent_s=1.0, answered_s=2.0, outcome=ACKED)
    assert "was sent after a later step" in check_counter([late, early], 2)[0]
