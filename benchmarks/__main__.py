"""`python -m benchmarks` (make bench): Packetboat and its peers, side by side in one run."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import structlog
from rich.console import Console

from benchmarks import report
from benchmarks.report import Row
from benchmarks.settings import BenchSettings
from benchmarks.systems import System, system
from harness.processes import NotReady

console = Console(width=150, highlight=False, soft_wrap=True)


def warn_of_memory_disk(directory: Path) -> None:
    """Warn if a directory is on tmpfs, on which a sync means nothing."""
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", str(directory)], capture_output=True, text=True
    ).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        console.print(f"WARNING: {directory} is on {kind}, where syncs cost nothing: set BENCH_DIR")


def json_line(row: Row) -> str:
    """Return a row as a line of JSON, which has null for NaN."""
    return json.dumps({name: None if value != value else value for name, value in row.items()})


def start_all(settings: BenchSettings, directory: Path) -> list[System]:
    """Start the systems; print a line for each that does not come up.

    The caller stops every system of the list.
    """
    running: list[System] = []
    for name in settings.only:
        candidate = system(name, directory / name)
        try:
            candidate.start()
        except NotReady as reason:
            console.print(f"SKIPPED {candidate.name}: {reason}", style="bold")
            candidate.stop()
        except BaseException:
            candidate.stop()
            for other in running:
                other.stop()
            raise
        else:
            running.append(candidate)
    return running


def run_round(
    number: int, systems: list[System], settings: BenchSettings, output: IO[str]
) -> list[Row]:
    """Run every case of every system once; the order of systems turns with the rounds."""
    turned = systems[number % len(systems) :] + systems[: number % len(systems)]
    rows: list[Row] = []
    for each in turned:
        for name, measure in each.cases(number, settings.case_s):
            row: Row = {"system": each.name, "case": name, "round": number}
            try:
                row = report.derive(row | measure())
            except (NotReady, subprocess.TimeoutExpired) as reason:
                row["skipped"] = str(reason)
                console.print(f"SKIPPED {each.name}, {name}: {reason}", style="bold")
            else:
                errors = f"  {row['failed']} failed {row.get('errors')}" if row["failed"] else ""
                console.print(f"  {each.name}, {name}: {report.headline(row)}{errors}")
            rows.append(row)
            output.write(json_line(row) + "\n")
            output.flush()
    return rows


def measure_all(settings: BenchSettings, directory: Path, output: IO[str]) -> list[Row]:
    """Start, measure in rounds within the budget, stop."""
    began = time.monotonic()
    systems = start_all(settings, directory)
    rows: list[Row] = []
    try:
        for number in range(settings.rounds if systems else 0):
            round_began = time.monotonic()
            console.print(f"round {number + 1} of {settings.rounds}")
            rows += run_round(number, systems, settings, output)
            now = time.monotonic()
            if now - began + (now - round_began) > settings.budget_s:
                console.print("no time for another round")
                break
    finally:
        for each in systems:
            each.stop()
    return rows


def main() -> int:
    """Exit status 1 when nothing of ours was measured."""
    argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, epilog=BenchSettings.__doc__
    ).parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    settings = BenchSettings.from_environment()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    settings.results.mkdir(parents=True, exist_ok=True)
    path = settings.results / time.strftime("%Y%m%d-%H%M%S.jsonl")
    directory = Path(tempfile.mkdtemp(prefix="packetboat-bench-", dir=settings.directory))
    warn_of_memory_disk(directory)
    began = time.monotonic()
    try:
        with path.open("w") as output:
            rows = measure_all(settings, directory, output)
            report.print_table(rows, console)
            report.print_cpu(rows, console)
            for result in report.print_targets(rows, console):
                output.write(json_line(result) + "\n")
            for row in report.medians(rows):
                output.write(json_line({"kind": "median"} | row) + "\n")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    console.print(
        f"{os.cpu_count()} cores, {time.monotonic() - began:.0f} s; every case of every round"
        f" is in {path}"
    )
    measured = any(row["system"] == report.US and "rate" in row for row in rows)
    return 0 if measured or "packetboat" not in settings.only else 1


if __name__ == "__main__":
    sys.exit(main())
