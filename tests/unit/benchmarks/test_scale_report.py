"""The figures of sizes: what bends, which limits hold, and that the plot is SVG."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from benchmarks.scale_report import Limit, Point, bends, drawn, first_bend, verdict


def points(axis: str, *sizes: int, **figures: tuple[float, ...]) -> list[Point]:
    """Return points of an axis, with a value of each figure for each size."""
    return [
        Point(axis, size, {name: values[at] for name, values in figures.items()})
        for at, size in enumerate(sizes)
    ]


def test_a_figure_bends_where_it_is_twice_the_lowest_before() -> None:
    found = points("topics", 10, 100, 1000, message_us=(400.0, 300.0, 700.0))
    (bend,) = bends(found)
    assert (bend.size, bend.figure) == (1000, "message_us")
    assert bend.times == pytest.approx(7 / 3)


def test_a_little_is_noise_however_many_times_it_is() -> None:
    assert bends(points("topics", 10, 100, p50_ms=(0.5, 2.0))) == []
    assert bends(points("topics", 10, 100, p50_ms=(0.5, 3.0)))


def test_a_figure_that_is_missing_at_a_size_is_passed_over() -> None:
    assert bends(points("topics", 10, 100, 1000, create_ms=(math.nan, 10.0, 10.0))) == []


def test_a_larger_message_may_cost_more_but_not_a_kilobyte_of_it() -> None:
    figures = {"message_us": (100.0, 9000.0), "kilobyte_us": (100.0, 90.0)}
    assert bends(points("bytes", 100, 100_000, **figures)) == []


def test_the_first_bend_is_at_the_smallest_multiple_of_the_first_size() -> None:
    found = points("topics", 10, 1000, idle_percent=(5.0, 50.0))
    found += points("connections", 100, 1000, message_us=(400.0, 900.0))
    bend = first_bend(found)
    assert bend is not None
    assert bend.axis == "connections"
    assert first_bend(points("topics", 10, 100, idle_percent=(5.0, 5.0))) is None


def test_a_limit_holds_or_not_or_was_not_measured() -> None:
    found = points("topics", 10, 100, p99_ms=(4.0, 10.0))
    assert verdict(Limit("topics", 100, "p99_ms", 10.0), found).startswith("met")
    assert verdict(Limit("topics", 100, "p99_ms", 2.0, relative=True), found).startswith("MISSED")
    assert verdict(Limit("topics", 1000, "p99_ms", 2.0), found).startswith("not measured")


def test_the_plot_has_a_panel_for_each_axis_and_a_line_for_each_figure() -> None:
    found = points("topics", 10, 100, p99_ms=(4.0, 900.0), memory_mib=(900.0, 1000.0))
    found += points("connections", 10, 10_000, p99_ms=(4.0, 5.0))
    root = ElementTree.fromstring(drawn(found))
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert tags.count("g") == 2
    assert tags.count("polyline") == 3
