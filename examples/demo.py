"""Publish a log file, one message per line, and consume it with two competing workers.

    packetboat up            # in one terminal
    python examples/demo.py  # in another; `make demo`

Finds the server by PACKETBOAT_URL and PACKETBOAT_TOKEN, else by .packetboat/client.env, which
`packetboat up` writes. Makes a topic and a subscription of its own and deletes them in the end.
Exits 0 only if every published line was consumed, unchanged, and acked.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from packetboat import AsyncClient, PacketboatError, Receipt, UnknownOutcome
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

LOGS = ("/var/log/dpkg.log", "/var/log/syslog", "/var/log/messages", "/var/log/bootstrap.log")
LANES = 4
LINES_AT_A_TIME = 100
PULL_MESSAGES = 250
QUIET_S = 45.0
"""Seconds without any progress after which the demo gives up, and prints what is missing."""
MAX_LINE_BYTES = 64 * 1024
console = Console()


@dataclass
class Ledger:
    """The published and consumed messages, from which the report is made."""

    lines: list[str]
    published: dict[str, str] = field(default_factory=dict)
    consumed: dict[str, str] = field(default_factory=dict)
    deliveries: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    refused: int = 0
    acked: int = 0
    done_publishing: bool = False
    last_progress_s: float = field(default_factory=time.monotonic)

    @property
    def complete(self) -> bool:
        return self.done_publishing and self.published.keys() <= self.consumed.keys()

    def problems(self) -> list[str]:
        """Return all differences from a good run."""
        missing = self.published.keys() - self.consumed.keys()
        changed = [i for i, line in self.published.items() if self.consumed.get(i, line) != line]
        extra = self.consumed.keys() - self.published.keys()
        found = []
        if missing:
            found.append(f"{len(missing)} published messages were not consumed")
        if changed:
            found.append(f"{len(changed)} messages came with other content")
        if len(extra) > self.unknown:
            found.append(f"{len(extra) - self.unknown} consumed messages were never published")
        if self.refused:
            found.append(f"{self.refused} lines were refused")
        if self.acked < len(self.published):
            found.append(f"only {self.acked} of {len(self.published)} messages were acked")
        return found


class RateColumn(ProgressColumn):
    """The messages per second: the current rate, and in the end the mean."""

    def render(self, task: Task) -> Text:
        speed = None if task.finished else task.speed
        if not speed and task.elapsed:
            speed = task.completed / task.elapsed
        return Text(f"{speed:>9,.0f}/s" if speed else "        –/s", style="green")


async def publish(client: AsyncClient, topic: str, ledger: Ledger, bar: Bar) -> None:
    """Publish all lines, a bounded number of them at a time; the client makes batches of them."""
    parts = _parts(ledger.lines)

    async def lane() -> None:
        for lines in parts:
            await _publish_lines(client, topic, lines, ledger, bar)

    async with asyncio.TaskGroup() as lanes:
        for _ in range(LANES):
            lanes.create_task(lane())
    ledger.done_publishing = True


async def _publish_lines(
    client: AsyncClient, topic: str, lines: list[str], ledger: Ledger, bar: Bar
) -> None:
    """Publish some lines; one with an unknown outcome is counted, and may be consumed."""
    receipts = [client.publish(topic, line) for line in lines]
    results = await asyncio.gather(*receipts, return_exceptions=True)
    for line, result in zip(lines, results, strict=True):
        if isinstance(result, Receipt):
            ledger.published[result.message_id] = line
        elif isinstance(result, UnknownOutcome):
            ledger.unknown += 1
        else:
            ledger.refused += 1
    ledger.last_progress_s = time.monotonic()
    bar.advance(len(lines))


async def consume(client: AsyncClient, subscription: str, ledger: Ledger, bar: Bar) -> None:
    """Run a worker, which pulls and acks until everything published has been consumed."""
    while not ledger.complete:
        messages = await client.pull(subscription, max_messages=PULL_MESSAGES, wait_seconds=0.5)
        if not messages:
            if time.monotonic() - ledger.last_progress_s > QUIET_S:
                return
            continue
        settled = await client.ack(subscription, messages)
        ledger.acked += settled.count
        ledger.last_progress_s = time.monotonic()
        for message in messages:
            ledger.consumed[message.message_id] = message.text
            ledger.deliveries[message.message_id] += 1
        bar.advance(len(messages))


class Bar:
    """A line of the progress display."""

    def __init__(self, progress: Progress, name: str, total: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=total)

    def advance(self, count: int) -> None:
        self._progress.advance(self._task, count)

    def end(self) -> None:
        """Complete a bar whose length was not known."""
        task = self._progress.tasks[self._task]
        self._progress.update(self._task, total=task.completed)


async def run(url: str, token: str, lines: list[str], workers: int, keep: bool) -> Ledger:
    name = f"demo-{secrets.token_hex(3)}"
    ledger = Ledger(lines)
    progress = Progress(
        TextColumn("{task.description:<11}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        console=console,
        expand=True,
    )
    async with AsyncClient(url, token, retry_for_s=2.0) as client:
        await client.topics.create(name)
        await client.subscriptions.create(name, name, start="earliest")
    async with AsyncClient(url, token, retry_for_s=30.0) as client:
        try:
            with progress:
                published = Bar(progress, "published", len(lines))
                bars = [Bar(progress, f"worker {n + 1}", None) for n in range(workers)]
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(publish(client, name, ledger, published))
                    for bar in bars:
                        tasks.create_task(consume(client, name, ledger, bar))
                for bar in bars:
                    bar.end()
        finally:
            if not keep:
                await client.subscriptions.delete(name, force=True)
                await client.topics.delete(name)
    return ledger


def report(ledger: Ledger, seconds: float) -> int:
    """Print the counts, and return the exit code."""
    table = Table(show_header=False, box=None, padding=(0, 2))
    redelivered = sum(count - 1 for count in ledger.deliveries.values())
    rows = (
        ("lines", len(ledger.lines)),
        ("published, each on disk at a majority of three nodes", len(ledger.published)),
        ("consumed, distinct", len(ledger.consumed)),
        ("acked, durably", ledger.acked),
        ("delivered more than once", redelivered),
        ("published with an unknown outcome", ledger.unknown),
    )
    for label, count in rows:
        table.add_row(label, f"[bold]{count:,}[/bold]")
    console.print(table)
    problems = ledger.problems()
    for problem in problems:
        console.print(f"[red]✗ {problem}[/red]")
    if not problems:
        console.print(
            f"[green]✓ every published line was consumed, unchanged, and acked[/green] "
            f"in {seconds:.1f} s"
        )
    return 1 if problems else 0


def find_log(given: Path | None) -> tuple[str, list[str]]:
    """Return a name and the lines of a real log file, or of a made-up one if there is none."""
    for path in [given] if given else [Path(name) for name in LOGS]:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            if given:
                raise SystemExit(f"{path}: {error.strerror}") from error
            continue
        lines = [line[:MAX_LINE_BYTES] for line in text.splitlines() if line.strip()]
        if lines:
            return str(path), lines
    return "a made-up web server log", list(islice(_access_log(), 5_000))


def _access_log() -> Iterator[str]:
    dice = random.Random(1)
    clock_s = 1_767_225_600.0
    paths = ("/", "/cart", "/checkout", "/products/17", "/products/23", "/static/app.css")
    while True:
        clock_s += dice.expovariate(20)
        at = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(clock_s))
        host = f"198.51.100.{dice.randrange(1, 255)}"
        status = dice.choices((200, 304, 404, 500), (90, 6, 3, 1))[0]
        size = dice.randrange(200, 40_000)
        yield f'{host} - - [{at}] "GET {dice.choice(paths)} HTTP/1.1" {status} {size}'


def _parts(lines: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(lines), LINES_AT_A_TIME):
        yield lines[at : at + LINES_AT_A_TIME]


def find_server(env_file: Path) -> tuple[str, str]:
    """Return URL and token, from the environment or else from the file."""
    known = dict(os.environ)
    try:
        text = env_file.read_text(encoding="utf-8")
    except OSError:
        text = ""
    for line in text.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        known.setdefault(name.strip(), value.strip().strip("'\""))
    url, token = known.get("PACKETBOAT_URL"), known.get("PACKETBOAT_TOKEN")
    if not url or not token:
        raise SystemExit(
            "Where is the server? Start it with `make up` in another terminal (it writes "
            f"{env_file}), or set PACKETBOAT_URL and PACKETBOAT_TOKEN."
        )
    return url, token


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--file", type=Path, help="the log file (default: the first found)")
    parser.add_argument("--messages", type=int, default=20_000, help="repeat the file up to that")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--env-file", type=Path, default=Path(".packetboat/client.env"))
    parser.add_argument("--keep", action="store_true", help="do not delete the topic in the end")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    url, token = find_server(options.env_file)
    name, lines = find_log(options.file)
    chosen = list(islice(cycle(lines), options.messages))
    times = "" if len(chosen) <= len(lines) else ", again and again"
    console.print(
        f"Publishing {len(chosen):,} messages to {url}: "
        f"the lines of {name} ({len(lines):,}{times}); {options.workers} workers consume them."
    )
    started_s = time.monotonic()
    ledger: Ledger | None = None
    try:
        ledger = asyncio.run(run(url, token, chosen, options.workers, options.keep))
    except* PacketboatError as failures:
        for error in _leaves(failures):
            console.print(f"[red]✗ {type(error).__name__}: {error}[/red]")
    except* KeyboardInterrupt:
        console.print("Stopped.")
    return 1 if ledger is None else report(ledger, time.monotonic() - started_s)


def _leaves(group: BaseExceptionGroup[PacketboatError]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


if __name__ == "__main__":
    sys.exit(main())
