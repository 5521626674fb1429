"""Settings of the benchmarks: no other module of them reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
SYSTEMS = ("packetboat", "rabbit", "nats-always", "nats-default", "kafka")


@dataclass(frozen=True, slots=True)
class BenchSettings:
    """One run. `BENCH_QUICK=1` is the short form, `BENCH_ONLY=packetboat,rabbit` leaves some out,
    `BENCH_DIR` is where the data goes (a disk whose syncs count), `BENCH_RESULTS` the results."""

    rounds: int = 3
    case_s: float = 4.0
    budget_s: float = 1_200.0
    """No new round is begun that would not end by then."""
    only: tuple[str, ...] = SYSTEMS
    directory: Path | None = None
    results: Path = RESULTS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> BenchSettings:
        quick = environment.get("BENCH_QUICK", "0") not in ("", "0")
        only = tuple(environment.get("BENCH_ONLY", ",".join(SYSTEMS)).split(","))
        unknown = set(only) - set(SYSTEMS)
        if unknown:
            raise ValueError(f"BENCH_ONLY: {sorted(unknown)} are not among {SYSTEMS}")
        directory = environment.get("BENCH_DIR")
        return cls(
            rounds=1 if quick else 3,
            case_s=2.0 if quick else 4.0,
            budget_s=300.0 if quick else 1_200.0,
            only=only,
            directory=Path(directory) if directory else None,
            results=Path(environment.get("BENCH_RESULTS", str(RESULTS))),
        )


def cache_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory of things that are made once."""
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
