"""What a runner needs beside itself, looked for without importing it."""

from __future__ import annotations

from importlib.util import find_spec

from packetboat.extras import EXPORTS

_NEEDED = {"pyspark": "PySpark", "pyarrow": "PyArrow", "pyiceberg": "PyIceberg"}


def missing() -> list[str]:
    """Names, for people."""
    return [name for module, name in _NEEDED.items() if find_spec(module) is None]


def advice(names: list[str]) -> str:
    """What to do about what is missing."""
    are = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {are} not installed here: {EXPORTS}"
