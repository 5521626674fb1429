"""The SDK's two sides are one, and it covers the whole API."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_synchronous_resources_are_generated() -> None:
    command = [sys.executable, "sdk/python/generate_sync.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"run `make sdk`:\n{done.stderr}"


@pytest.mark.parametrize(
    ("asynchronous", "synchronous"),
    [
        ("async def f(self) -> AsyncIterator[int]:\n", "def f(self) -> Iterator[int]:\n"),
        ("return await self._sender.send(call)\n", "return self._sender.send(call)\n"),
        ("async with a as b:\n    x\n", "with a as b:\n    x\n"),
        ("x: AsyncGenerator[A[B], None]\n", "x: Generator[A[B], None, None]\n"),
        (
            "from packetboat.aio.sender import AsyncSender\n",
            "from packetboat.sync.sender import Sender\n",
        ),
        ("x: Iterable[A] | AsyncIterable[A]\n", "x: Iterable[A]\n"),
        ("awaited = Asynchronous\n", "awaited = Asynchronous\n"),
    ],
    ids=["iterator", "await", "with", "generator", "imports", "either", "other-words"],
)
def test_what_code_becomes(asynchronous: str, synchronous: str) -> None:
    """But for the header and the style."""
    sys.path.insert(0, str(ROOT / "sdk" / "python"))
    try:
        import generate_sync
    finally:
        sys.path.pop(0)
    source = asynchronous
    for pattern, replacement in generate_sync.RULES:
        source = generate_sync.re.sub(pattern, replacement, source)
    assert source == synchronous
