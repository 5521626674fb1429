"""A process of an installation that is measured: what `python -P gateway` is, with the probe.

    python -P tests/abuse/probed.py up --data-dir DIRECTORY

Its children are started the same way, so that store nodes are measured as servers are.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def measure(command: str) -> None:
    """Measure this process, which has begun with that command."""
    from gateway import heap
    from tests.abuse.probe import name_routes, prepare

    probe = prepare()
    if command == "serve":
        with heap.loading():
            name_routes(probe)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from tests.inside import run

    run(Path(__file__), measure)
