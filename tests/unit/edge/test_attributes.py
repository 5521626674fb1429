from __future__ import annotations

from edge.attributes import longer_than


def test_bytes_are_counted_not_characters() -> None:
    assert not longer_than("a" * 1024, 1024)
    assert longer_than("a" * 1025, 1024)
    assert not longer_than("ü" * 512, 1024)
    assert longer_than("ü" * 513, 1024)
