"""`python -m tests.chaos.export_runner LAKES STATE_DIR NAME`: a runner with short leases, whose
drivers can be told to fail (`export_driver.py`)."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_exports.runner import logs
from spark_exports.runner.lakes import lakes_in
from spark_exports.runner.runner import run
from spark_exports.runner.settings import RunnerSettings

LEASE_S = 10.0


def main() -> int:
    lakes, state_dir, name = sys.argv[1:]
    settings = RunnerSettings(
        lakes=Path(lakes),
        name=name,
        lease_seconds=LEASE_S,
        drain_seconds=0,
        grace_seconds=5,
        state_dir=Path(state_dir),
        driver_memory="1g",
        driver_nice=0,
        driver=(sys.executable, "-m", "tests.chaos.export_driver"),
    )
    logs.configure("info", name)
    return run(settings, lakes_in(settings.lakes))


if __name__ == "__main__":
    sys.exit(main())
