"""Figures of the benchmark: what a row says, and what a ratio is."""

from __future__ import annotations

import math

import pytest

from benchmarks.cases import BATCH_JSON, IDLE, POST_256, PUBLISH_256
from benchmarks.report import NATS_DEFAULT, RABBIT, TARGETS, US, Row, check, derive, medians
from harness.measure import median, percentile


def row(system: str, case: str, number: int, n: int, **more: object) -> Row:
    counted = {"n": n, "elapsed_s": 2.0, "wall_s": 2.0, "server_cpu_s": 1.0, "machine_cpu_s": 3.0}
    counted |= {"p50_ms": 1.0, "p99_ms": 2.0, "failed": 0}
    return derive({"system": system, "case": case, "round": number} | counted | more)


def test_a_row_has_its_rate_and_its_cost_per_message() -> None:
    found = row(US, POST_256, 0, 1000, fdatasyncs=50, client_cpu_s=0.5)
    assert found["rate"] == 500
    assert found["server_us"] == 1000
    assert found["fdatasyncs_per_message"] == pytest.approx(0.05)
    assert found["other_cores"] == pytest.approx(0.75)


def test_nothing_done_is_no_figure() -> None:
    assert math.isnan(row(US, POST_256, 0, 0)["server_us"])


def test_an_idle_system_has_a_share_of_a_core_and_no_rate() -> None:
    found = row(US, IDLE, 0, 0, server_cpu_s=0.03)
    assert found["core_percent"] == pytest.approx(1.5)
    assert math.isnan(found["rate"])
    assert math.isnan(row(US, POST_256, 0, 100)["core_percent"])


def test_a_ratio_is_the_median_of_the_ratios_of_each_round() -> None:
    rows = [row(US, POST_256, number, n) for number, n in enumerate((100, 900, 300))]
    rows += [row(RABBIT, PUBLISH_256, number, n) for number, n in enumerate((100, 300, 300))]
    target = next(each for each in TARGETS if each.theirs == (RABBIT, PUBLISH_256))
    result = check(target, rows)
    assert result is not None
    assert (result["value"], result["met"]) == (1.0, True)


def test_a_ratio_without_the_other_side_is_not_measured() -> None:
    target = next(each for each in TARGETS if each.theirs == (NATS_DEFAULT, PUBLISH_256))
    assert check(target, [row(US, BATCH_JSON, 0, 100)]) is None


def test_medians_leave_out_what_was_not_measured() -> None:
    assert median([3.0, math.nan, 1.0, 2.0]) == 2.0
    assert math.isnan(median([]))
    skipped = {"system": US, "case": POST_256, "round": 1, "skipped": "no wrk"}
    (found,) = medians([row(US, POST_256, 0, 100), skipped])
    assert found["rounds"] == 1


def test_percentiles_are_samples() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 3.0
    assert percentile([1.0], 99) == 1.0
