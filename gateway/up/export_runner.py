"""The runner of exports beside an embedded platform: whether it can be there, and what it is given.

It is a program of its own (`spark_exports.runner`), known here by its name and its settings only.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec

from gateway.up.data_dir import DataDir

_PARTS = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-P", str(_PARTS / "spark_exports/runner/__main__.py"))
OPERATOR = "export-runner"
"""The operator that it acts as, which may do nothing else."""
PERMISSION = "run_exports"
LAKES_FILE = "lakes.json"
GRACE_S = 3
STOP_S = 10.0
"""Seconds from SIGTERM to SIGKILL; a driver that is at work is told to stop at once."""
_NEEDED = ("pyspark", "pyiceberg")
_ITS_OWN = ("PACKETBOAT_RUNNER_", "PACKETBOAT_EXPORT_", "PACKETBOAT_LOG_LEVEL")


def is_installed() -> bool:
    """Return whether the runner's packages are there, which `packetboat-server` alone does
    not bring; import nothing.
    """
    return all(find_spec(name) is not None for name in _NEEDED)


def lakes(data_dir: DataDir, database_url: str) -> bytes:
    """Return the file with the installation's lake: in its directory, its catalogue in its
    Postgres.
    """
    _, _, where = database_url.partition("://")
    catalog = {"type": "sql", "uri": f"postgresql+psycopg://{where}"}
    lake = {"name": "default", "warehouse": str(data_dir.path / "lake"), "catalog": catalog}
    return msgspec.json.format(msgspec.json.encode([lake]))


def environment(inherited: Mapping[str, str], data_dir: DataDir, url: str) -> dict[str, str]:
    """Return the environment of the runner's process. Raises OSError.

    It has no secret of the platform beside the runner's own credential, which is read from its
    file.
    """
    lines = data_dir.runner_file.read_text(encoding="ascii").splitlines()
    credential = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith("PACKETBOAT_") or name.startswith(_ITS_OWN)
    }
    given = {
        "PACKETBOAT_LAKES": str(data_dir.path / LAKES_FILE),
        "PACKETBOAT_RUNNER_STATE_DIR": str(data_dir.path / "exports"),
        "PACKETBOAT_RUNNER_DRAIN_SECONDS": "0",
        "PACKETBOAT_RUNNER_GRACE_SECONDS": str(GRACE_S),
    }
    if lakes_file := inherited.get("PACKETBOAT_LAKES"):
        given["PACKETBOAT_LAKES"] = lakes_file
    return given | kept | {"PACKETBOAT_URL": url} | credential
