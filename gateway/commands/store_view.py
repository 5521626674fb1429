"""The store on a terminal: two tables, and the progress of an operation. Plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from store_nodes.admin import GroupRow, NodeRow, Note, Overview

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
PIPE_COLUMNS = 240
_BAD_STATES = {"down", "damaged", "incomplete"}


def terminal() -> Console:
    """Return a console on standard output; a file or a pipe has no width, so nothing is
    folded there.
    """
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_COLUMNS)


def tables(seen: Overview) -> Group:
    """Nodes above groups."""
    return Group(_nodes(seen.nodes), Text(), _groups(seen.groups))


def _nodes(rows: tuple[NodeRow, ...]) -> Table:
    table = Table("node", "address", "zone", "state", box=None, header_style="bold")
    for name in ("leads", "votes in", "learns in", "lag", "log", "disk free"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        quiet = row.up or row.state == "removed"
        style = "red" if row.state in _BAD_STATES else "" if quiet else "yellow"
        table.add_row(
            str(row.node),
            Text(row.address),
            Text(row.zone or "–"),
            Text(row.state, style=style),
            str(row.leads),
            str(row.voter_in),
            str(row.learner_in) if row.learner_in else "–",
            str(row.lag),
            size(row.log_bytes),
            size(row.free_bytes),
            Text(", ".join(part for part in ("slow disk" if row.slow else "", row.why) if part)),
        )
    return table


def _groups(rows: tuple[GroupRow, ...]) -> Table:
    table = Table("group", "leader", "voters", "learners", box=None, header_style="bold")
    for name in ("chosen", "behind", "queues", "stored"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        leader = "none" if row.leader is None else str(row.leader)
        wished = f" (asked for: {row.wished})" if row.wished else ""
        behind = ", ".join(f"{node}: {lag}" for node, lag in row.lags.items() if lag)
        table.add_row(
            str(row.group),
            Text(leader + wished, style="red" if row.leader is None else ""),
            " ".join(map(str, row.voters)),
            " ".join(map(str, row.learners)) or "–",
            str(row.chosen),
            behind or "–",
            str(row.queues),
            size(row.stored_bytes),
            Text(row.warning, style="red" if row.spare < 0 or row.leader is None else "yellow"),
        )
    return table


def size(count: int | None) -> str:
    """Format a size, such as `1.5 GiB`."""
    if count is None:
        return "–"
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


class ProgressDisplay:
    """Shows the notes of an operation: on a terminal the latest line of each group,
    redrawn; else every line as it comes.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._latest: dict[int, str] = {}
        self._heading = ""
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal else None

    def __enter__(self) -> ProgressDisplay:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, note: Note) -> None:
        """Show a note, as a `Progress` of store_nodes.admin."""
        if self._live is None:
            where = "" if note.group is None else f"group {note.group}: "
            self._console.print(f"{where}{note.text}", markup=False, soft_wrap=True)
            return
        if note.group is None:
            self._heading = note.text
        else:
            self._latest[note.group] = note.text
        table = Table.grid(padding=(0, 2))
        for group, text in sorted(self._latest.items()):
            table.add_row(f"group {group}", Text(text))
        self._live.update(Group(table, Text(self._heading, style="bold")))
