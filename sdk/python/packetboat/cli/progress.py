"""A progress bar on stderr, where somebody looks: not when it is piped, nor with `--quiet`."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any

from packetboat.cli.output import Output


class Progress:
    """`total` may be unknown; `bytes_` when it counts those."""

    def __init__(
        self, output: Output, name: str, total: float | None, *, bytes_: bool = False
    ) -> None:
        self._bar: Any = None
        if not output.quiet and sys.stderr.isatty():
            self._bar = _bar(bytes_)
            self._task = self._bar.add_task(name, total=total)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def at(self, done: float, name: str | None = None, total: float | None = None) -> None:
        """Show the progress; `name` and `total` stay the same where they are not given."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=name, total=total)


def _bar(bytes_: bool) -> Any:
    from rich import progress
    from rich.console import Console

    count = progress.DownloadColumn() if bytes_ else progress.MofNCompleteColumn()
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        count,
        progress.TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def wait(seconds: float) -> None:
    """Pause between two looks; Ctrl-C ends it."""
    threading.Event().wait(seconds)
