"""Frames of earlier releases are read as they were meant, and what is added is at the end."""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.releases import HISTORY
from tests.golden.samples import WIRES

HERE = Path(__file__).parent
RELEASES = sorted(path.parent.name for path in HERE.glob("*/frames.json"))


def recorded() -> list[Any]:
    return [
        pytest.param(wire, kind, bytes.fromhex(text), id=f"{release}-{wire}-{kind}")
        for release in RELEASES
        for wire, kinds in json.loads((HERE / release / "frames.json").read_text()).items()
        for kind, text in kinds.items()
    ]


def test_every_release_of_the_history_is_recorded() -> None:
    folders = {name: {path.name for path in (HERE / name).iterdir()} for name in RELEASES}
    assert sorted(HISTORY) == RELEASES
    assert all(folders[name] >= {"facts.json", "nodes.tar.gz", "tables.json"} for name in HISTORY)


@pytest.mark.parametrize(("wire", "kind", "raw"), recorded())
def test_a_frame_of_an_earlier_release_is_read(wire: str, kind: str, raw: bytes) -> None:
    read = msgspec.msgpack.decode(raw, type=WIRES[wire])
    assert type(read).__name__ == kind
    assert begins_with(
        msgspec.to_builtins(read, builtin_types=(bytes,)), msgspec.msgpack.decode(raw)
    )


def begins_with(now: Any, then: Any) -> bool:
    """Return whether `now` is `then`, perhaps with more at the end of each record."""
    if isinstance(then, list):
        now = list(now)
        return len(now) >= len(then) and all(map(begins_with, now, then))
    return bool(now == then)


@pytest.mark.parametrize("wire", WIRES)
def test_a_field_of_a_later_release_is_passed_over(wire: str) -> None:
    from tests.golden.samples import sample

    for kind in typing.get_args(WIRES[wire]):
        meant = sample(kind)
        later = [*msgspec.msgpack.decode(msgspec.msgpack.encode(meant)), "new"]
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(later), type=WIRES[wire]) == meant
