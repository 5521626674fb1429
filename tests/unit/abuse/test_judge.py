"""Test which observations `make abuse` counts as a breach of the promise."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.abuse import connections, judge, scenarios
from tests.abuse.__main__ import PROOFS
from tests.abuse.h2spec import failed_in
from tests.abuse.judge import Row, Seen, breaches, compared, judged, table, witness_table
from tests.loop_cpu import MAX_CALLBACK_MS

GOOD = Seen(Counter({200: 9}), 1.0, 20.0, "GET /a", 0.0, 1.0, 9.0, 0, 1.0, [8.0] * 99, [], False)


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"callback_ms": MAX_CALLBACK_MS + 1}, "callback"),
        ({"kept_mib": judge.MAX_KEPT_MIB + 1}, "kept"),
        ({"peak_mib": judge.MAX_PEAK_MIB + 1}, "peak"),
        ({"kept_descriptors": judge.MAX_KEPT_DESCRIPTORS + 1}, "descriptors"),
        ({"log_kib": judge.MAX_LOG_KIB + 1}, "log"),
        ({"refused": ["POST /topics/seen/messages: 503 overloaded"]}, "refused"),
        ({"gone": True}, "gone"),
    ],
)
def test_each_bound_is_one(changed: dict[str, Any], kind: str) -> None:
    assert breaches(GOOD) == {}
    assert list(breaches(replace(GOOD, **changed))) == [kind]


class Watched:
    """Stands for `judge.watched`: what was seen, one after the other."""

    def __init__(self, *seen: Seen) -> None:
        self.left = list(seen)

    async def __call__(self, *_: Any, **__: Any) -> Seen:
        return self.left.pop(0)


NOTHING: Any = None
LONG = replace(GOOD, callback_ms=80.0)
LARGE = replace(GOOD, kept_mib=80.0)


@pytest.mark.parametrize(
    ("seen", "count"),
    [((GOOD,), 0), ((LONG, GOOD), 0), ((LONG, LARGE), 0), ((LONG, LONG), 1)],
)
async def test_a_breach_is_seen_twice(
    monkeypatch: pytest.MonkeyPatch, seen: tuple[Seen, ...], count: int
) -> None:
    monkeypatch.setattr(judge, "watched", Watched(*seen))
    row = await judged(NOTHING, "an attack", NOTHING)
    assert len(row.breaches) == count


async def test_the_end_of_the_server_needs_no_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "watched", Watched(replace(GOOD, gone=True)))
    assert (await judged(NOTHING, "an attack", NOTHING)).breaches == ["the server has ended"]


async def test_a_witness_that_is_slowed_down_is_a_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = replace(GOOD, publish_ms=[100.0] * 99)
    monkeypatch.setattr(judge, "watched", Watched(slow, GOOD, slow, GOOD, GOOD, GOOD))
    row = await compared(NOTHING, "an attack", NOTHING, NOTHING, 3)
    assert row.ratio == 100 / 8
    assert len(row.breaches) == 1
    monkeypatch.setattr(judge, "watched", Watched(slow, slow, slow, slow, GOOD, GOOD))
    assert (await compared(NOTHING, "an attack", NOTHING, NOTHING, 3)).breaches == []


@pytest.mark.parametrize(
    ("seen", "count"),
    [((GOOD, GOOD), 0), ((LARGE, GOOD, GOOD, GOOD), 0), ((LARGE, GOOD, LARGE, GOOD), 1)],
)
async def test_a_single_round_that_looks_like_a_breach_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch, seen: tuple[Seen, ...], count: int
) -> None:
    watched = Watched(*seen)
    monkeypatch.setattr(judge, "watched", watched)
    row = await compared(NOTHING, "an attack", NOTHING, NOTHING, 1)
    assert len(row.breaches) == count
    assert not watched.left


async def test_memory_that_grows_a_little_with_each_round_is_a_breach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = [replace(GOOD, kept_mib=10.0, after_mib=100.0 + 10.0 * at) for at in range(4)]
    seen = [each for one in rounds for each in (one, GOOD)]
    monkeypatch.setattr(judge, "watched", Watched(*seen))
    (breach,) = (await compared(NOTHING, "an attack", NOTHING, NOTHING, 4)).breaches
    assert breach == "30 MiB more than after the first round are kept"
    monkeypatch.setattr(judge, "watched", Watched(*seen))
    assert (await compared(NOTHING, "an attack", NOTHING, NOTHING, 3)).breaches == []


def test_the_table_begins_with_what_is_broken() -> None:
    rows = [Row("a good one", LONG), Row("a bad one", GOOD, 15.0, 10.0, ["too much"])]
    lines = table(rows).splitlines()
    assert lines[2].startswith("| a bad one | 9 | 20.0 | GET /a |")
    assert lines[2].endswith("| 0 | 15.0 | 10.0 | 1.5 | too much |")
    assert lines[3].startswith("| a good one |")


def test_failures_of_h2spec_are_read() -> None:
    report = """<testsuites><testsuite>
      <testcase package="http2/4.1" classname="Sends a frame"><failure>x\x00</failure></testcase>
      <testcase package="http2/4.2" classname="Sends another"></testcase>
    </testsuite></testsuites>"""
    assert [str(one) for one in failed_in(report)] == ["http2/4.1 Sends a frame"]


def test_a_report_of_h2spec_without_a_test_is_no_pass() -> None:
    with pytest.raises(AssertionError, match="no test has run"):
        failed_in("<testsuites></testsuites>")


def test_the_table_of_the_witness_has_the_attacks_of_the_audit_by_number() -> None:
    one = Row("changes", GOOD, 15.0, 10.0, samples=150)
    other = Row("expressions", GOOD, 8.04, 8.0, samples=149, refused=2)
    assert witness_table([one, other], PROOFS).splitlines()[2:] == [
        "| 1 | expressions | 8.0 | 8.0 | 1.0 | 2 | 149 |",
        "| 13 | changes | 15.0 | 10.0 | 1.5 | 0 | 150 |",
    ]


def test_every_attack_of_the_audit_that_loads_is_beside_a_witness() -> None:
    assert set(PROOFS.values()) == {1, 2, 3, *range(6, 14)}
    assert connections.PROOFS.keys() - {"large answers never read"} <= connections.ATTACKS.keys()
    assert scenarios.PROOFS.keys() == scenarios.SCENARIOS.keys()
