"""Faults are drawn from seeds: the same requests have the same ones, in whatever order."""

from __future__ import annotations

from random import Random

import pytest
from packetboat.testing.faults import Fate, Fault, Faults

LINES = [f"POST /topics/{name}/messages" for name in "abcdefgh"] * 25


def fates(lines: list[str], **seeds: int) -> dict[tuple[str, int], Fate]:
    """Return the fate of each line by its text and the number of equal lines before it."""
    faults = Faults()
    faults.drop_replies(0.3, seed=seeds.get("drop", 1))
    faults.delay(0.3, seconds=2.0, seed=seeds.get("delay", 1))
    found: dict[tuple[str, int], Fate] = {}
    for line in lines:
        nth = sum(1 for known, _ in found if known == line)
        found[line, nth] = faults.fate(line)
    return found


def test_the_order_in_which_clients_come_changes_nothing() -> None:
    shuffled = LINES.copy()
    Random(5).shuffle(shuffled)
    assert shuffled != LINES
    assert fates(shuffled) == fates(LINES)


def test_another_seed_has_others() -> None:
    assert fates(LINES, drop=9) != fates(LINES)
    assert fates(LINES, delay=9) != fates(LINES)


def test_the_rate_is_about_what_is_asked_for() -> None:
    found = fates(LINES).values()
    dropped = sum(Fault.DROP_REPLY in fate.faults for fate in found)
    both = sum(len(fate.faults) == 2 for fate in found)
    assert 40 < dropped < 80
    assert 8 < both < 32, "one rule does not decide for another"
    assert all(0 <= fate.delay_s <= 2.0 for fate in found)


def test_a_rule_is_for_some_requests() -> None:
    faults = Faults()
    faults.drop_requests(on="POST /topics/a")
    assert faults.fate("POST /topics/a/messages").faults == {Fault.DROP_REQUEST}
    assert faults.fate("GET /topics/a/messages").faults == frozenset()


def test_after_stop_there_are_none_and_what_there_was_is_told() -> None:
    faults = Faults()
    faults.duplicate(1.0, seed=4)
    faults.fate("GET /a")
    faults.stop()
    assert faults.fate("GET /a") == Fate()
    assert faults.report() == [
        "packetboat.faults.duplicate(1.0, seed=4)  # 1 times",
        "# of 2 requests",
    ]


def test_a_seed_that_is_not_given_is_told() -> None:
    faults = Faults()
    faults.delay(0.5, seconds=1.5, on="GET /a")
    (rule, _) = faults.report()
    assert rule.startswith("packetboat.faults.delay(0.5, seed=")
    assert rule.endswith(", on='GET /a', seconds=1.5)  # 0 times")


@pytest.mark.parametrize("rate", [-0.1, 1.1])
def test_a_rate_is_a_part(rate: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        Faults().drop_requests(rate)
