"""The SDK's two sides are one, and it covers the whole API."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy import sdk_surface

ROOT = Path(__file__).parents[2]


def test_synchronous_resources_are_generated() -> None:
    command = [sys.executable, "sdk/python/generate_sync.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"run `make generate`:\n{done.stderr}"


def test_what_users_of_the_sdk_call_is_as_recorded() -> None:
    """A change of the record is a change that users notice; it belongs into the changelog."""
    recorded = sdk_surface.RECORD.read_text("utf-8").splitlines()
    now = sdk_surface.surface().splitlines()
    differences = [line for line in difflib.unified_diff(recorded, now, "recorded", "now", n=0)]
    hint = "run `python -m tests.tidy.sdk_surface --write` if that is meant:"
    assert not differences, "\n".join([hint, *differences])


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
    """The header and the style are not compared."""
    sys.path.insert(0, str(ROOT / "sdk" / "python"))
    try:
        import generate_sync
    finally:
        sys.path.pop(0)
    source = asynchronous
    for pattern, replacement in generate_sync.RULES:
        source = generate_sync.re.sub(pattern, replacement, source)
    assert source == synchronous
