"""`python -m tests.simulation.delivery --runs 10`: the delivery half over a real Postgres.

--seed N      the first seed; with one run it reproduces that seed
--runs N      the number of seeds from there on, each in a process of its own
"""

from __future__ import annotations

import os
import sys

from tests.simulation.delivery import std_clocks

if os.environ.get("PYTHONHASHSEED") != "0":
    # The order of a set of texts is one of a seed's, too.
    again = [sys.executable, "-m", "tests.simulation.delivery", *sys.argv[1:]]
    os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})

std_clocks.install()  # before the product is imported

from tests.simulation.delivery.main import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
