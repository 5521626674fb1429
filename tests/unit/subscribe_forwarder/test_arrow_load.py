"""All that Arrow needs is loaded apart from the loop."""

import subprocess
import sys

import pytest

SCRIPT = """
import asyncio
import sys

from subscribe_forwarder.delivery.reading import arrow
from subscribe_forwarder.delivery.reading.render import PartitionRenderer


async def columns_import_nothing() -> None:
    encoder = arrow.ArrowEncoder(await arrow.load(), PartitionRenderer(bytes(8), 0), 0)
    loaded = set(sys.modules)
    encoder._texts("key", ["a", None])
    encoder._attributes([{"a": "b"}, None])
    encoder._priorities([1, 0])
    print(sorted(set(sys.modules) - loaded))


asyncio.run(columns_import_nothing())
"""


def test_columns_import_nothing_on_the_loop() -> None:
    """Pandas was imported by the first column where it is installed; the loop stood for 0.3 s."""
    pytest.importorskip("pandas")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n", done.stdout
