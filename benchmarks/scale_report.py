"""The figures of `make bench-scale` as a table and a plot, and what bends first.

A figure *bends* at the first size at which it is more than twice the lowest at a smaller size, and
more than noise above it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

BEND = 2.0
JUDGED = {"bytes": ("kilobyte_us",)}
"""The figures of an axis that may bend, where not all may: a larger message costs more."""


class Figure(NamedTuple):
    """A figure: how a table names it, and the rise that is noise."""

    heading: str
    noise: float
    colour: str


FIGURES = {
    "create_ms": Figure("create, ms CPU", 5.0, "#8c564b"),
    "idle_percent": Figure("idle, % of a core", 2.0, "#1f77b4"),
    "p50_ms": Figure("p50, ms", 2.0, "#2ca02c"),
    "p99_ms": Figure("p99, ms", 10.0, "#d62728"),
    "message_us": Figure("CPU µs a message", 20.0, "#ff7f0e"),
    "kilobyte_us": Figure("CPU µs a KB", 20.0, "#17becf"),
    "memory_mib": Figure("memory, MiB", 200.0, "#9467bd"),
}


class Point(NamedTuple):
    """The figures of an axis at a size."""

    axis: str
    size: int
    figures: Mapping[str, float]


class Limit(NamedTuple):
    """The most of a figure at a size; if `relative`, in times the figure at the smallest size."""

    axis: str
    size: int
    figure: str
    most: float
    relative: bool = False


LIMITS = (
    Limit("topics", 10_000, "create_ms", 10.0),
    Limit("topics", 10_000, "idle_percent", 5.0),
    Limit("topics", 10_000, "p99_ms", 2.0, relative=True),
    Limit("connections", 10_000, "message_us", 3_000.0),
)


class Bend(NamedTuple):
    """The size at which a figure bends, and how many times the lowest it is there."""

    axis: str
    figure: str
    size: int
    smallest: int
    times: float

    @property
    def text(self) -> str:
        """Return it as a sentence without its end."""
        heading = FIGURES[self.figure].heading
        return f"{heading} at {self.size:,} {self.axis} ({self.times:.1f} times the lowest before)"


def bends(points: Sequence[Point]) -> list[Bend]:
    """Return every bend of one axis, at most one for each figure, the smallest size first."""
    found = []
    for name, figure in FIGURES.items():
        lowest = math.inf
        for point in points:
            if name not in JUDGED.get(point.axis, FIGURES):
                continue
            value = point.figures.get(name, math.nan)
            if math.isnan(value):
                continue
            if lowest < math.inf and value > lowest * BEND and value > lowest + figure.noise:
                times = value / lowest if lowest else math.inf
                found.append(Bend(point.axis, name, point.size, points[0].size, times))
                break
            lowest = min(lowest, value)
    return sorted(found, key=lambda bend: bend.size)


def by_axis(points: Sequence[Point]) -> dict[str, list[Point]]:
    """Return the points of each axis, by its name."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.axis, []).append(point)
    return found


def first_bend(points: Sequence[Point]) -> Bend | None:
    """Return the bend at the smallest multiple of the size at which its axis begins."""
    every = [bend for axis in by_axis(points).values() for bend in bends(axis)]
    return min(every, key=lambda bend: (bend.size / bend.smallest, -bend.times), default=None)


def verdict(limit: Limit, points: Sequence[Point]) -> str:
    """Return a line that says whether a limit holds."""
    times = " times that at the smallest size" if limit.relative else ""
    text = f"{FIGURES[limit.figure].heading} at {limit.size:,} {limit.axis}"
    along = by_axis(points).get(limit.axis, [])
    found = [p.figures[limit.figure] for p in along if p.size == limit.size]
    if not found:
        return f"not measured  {text} (≤ {limit.most:g}{times})"
    value = found[0] / (along[0].figures[limit.figure] if limit.relative else 1.0)
    word = "met   " if value <= limit.most else "MISSED"
    return f"{word}  {text}: {value:.3g} (≤ {limit.most:g}{times})"


def print_report(points: Sequence[Point], console: Console) -> None:
    """Print a table for each axis, what bends there, and what bends first of all."""
    for axis, found in by_axis(points).items():
        names = [name for name in FIGURES if any(name in point.figures for point in found)]
        table = Table(title=f"cost against {axis}")
        for heading in (axis, *(FIGURES[name].heading for name in names)):
            table.add_column(heading, justify="right")
        for point in found:
            values = [point.figures.get(name, math.nan) for name in names]
            table.add_row(f"{point.size:,}", *(f"{value:,.1f}" for value in values))
        console.print(table)
        told = "; ".join(bend.text for bend in bends(found)) or "nothing"
        console.print(f"bends: {told}\n")
    for limit in LIMITS:
        console.print(verdict(limit, points))
    first = first_bend(points)
    console.print(f"the first thing that bends: {first.text if first else 'nothing'}")


# The plot: a panel for each axis, every figure relative to its value at the smallest size.

COLUMNS = 3
PANEL_X, PANEL_Y = 330, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 34, 30
LEGEND_Y = 34
MOST_TIMES = 32.0
"""The top of a panel; figures beyond it are drawn there."""


def drawn(points: Sequence[Point]) -> str:
    """Return the plot as SVG."""
    axes = by_axis(points)
    rows = -(-len(axes) // COLUMNS)
    width, height = COLUMNS * PANEL_X, rows * PANEL_Y + LEGEND_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for number, (axis, found) in enumerate(axes.items()):
        x, y = number % COLUMNS * PANEL_X, number // COLUMNS * PANEL_Y
        parts += [f'<g transform="translate({x} {y})">', *_panel(axis, found), "</g>"]
    parts += [*_legend(points, height - LEGEND_Y / 2), "</svg>"]
    return "\n".join(parts) + "\n"


def _panel(axis: str, points: Sequence[Point]) -> list[str]:
    plot_x, plot_y = PANEL_X - LEFT - RIGHT, PANEL_Y - TOP - BOTTOM
    least, most = points[0].size, max(points[-1].size, points[0].size + 1)

    def at_x(size: int) -> float:
        return LEFT + plot_x * math.log(size / least) / math.log(most / least)

    def at_y(times: float) -> float:
        share = math.log2(min(MOST_TIMES, max(0.5, times)) / 0.5) / math.log2(MOST_TIMES / 0.5)
        return TOP + plot_y * (1 - share)

    parts = [f'<text x="{LEFT}" y="{TOP - 14}" font-weight="bold">{escape(axis)}</text>']
    for times in (0.5, 1, 2, 4, 8, 16, 32):
        y = at_y(times)
        colour = "#999" if times == 1 else "#e4e4e4"
        parts.append(
            f'<line x1="{LEFT}" x2="{LEFT + plot_x}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{times:g}×</text>'
        )
    for point in points:
        x = at_x(point.size)
        parts.append(
            f'<text x="{x:.1f}" y="{PANEL_Y - BOTTOM + 16}" text-anchor="middle">'
            f"{_short(point.size)}</text>"
        )
    for name, figure in FIGURES.items():
        line = [(p.size, p.figures[name]) for p in points if p.figures.get(name, 0.0) > 0]
        if len(line) < 2:
            continue
        places = [f"{at_x(size):.1f},{at_y(value / line[0][1]):.1f}" for size, value in line]
        parts.append(
            f'<polyline points="{" ".join(places)}" fill="none" stroke="{figure.colour}"'
            ' stroke-width="1.8"/>'
        )
    return parts


def _legend(points: Sequence[Point], y: float) -> list[str]:
    parts, x = [], LEFT
    for name, figure in FIGURES.items():
        if any(name in point.figures for point in points):
            parts.append(
                f'<rect x="{x}" y="{y - 9:.0f}" width="12" height="3" fill="{figure.colour}"/>'
                f'<text x="{x + 17}" y="{y - 3:.0f}">{escape(figure.heading)}</text>'
            )
            x += 34 + 7 * len(figure.heading)
    return parts


def _short(size: int) -> str:
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit:
            return f"{size / unit:g}{name}"
    return str(size)
