"""The scenarios of test_scenarios.py with all of their seeds, of which `make test` runs a third."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.parts import ROOT


def test_every_seed_of_every_scenario() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "tests/simulation/test_scenarios.py"]
    environment = {**os.environ, "TEST_EVERY_WAY": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
