"""The packages that a runner needs, which are looked for without importing them."""

from __future__ import annotations

from importlib.util import find_spec

from packetboat.extras import EXPORTS

_NEEDED = {"pyspark": "PySpark", "pyarrow": "PyArrow", "pyiceberg": "PyIceberg"}


def missing() -> list[str]:
    """Return the names of missing packages, for people."""
    return [name for module, name in _NEEDED.items() if find_spec(module) is None]


def advice(names: list[str]) -> str:
    """Return how to install the missing packages."""
    are = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {are} not installed here: {EXPORTS}"
