"""Secrets that several processes know: how they are written, and changed one process at a time."""

from __future__ import annotations

import itertools

import pytest

from peering.shared_secret import SharedSecret

OLD, NEW = b"o" * 16, b"n" * 32
ROUNDS = [
    SharedSecret(OLD),
    SharedSecret(OLD, (NEW,)),
    SharedSecret(NEW, (OLD,)),
    SharedSecret(NEW),
]


def test_what_is_written() -> None:
    assert SharedSecret.from_text(OLD.hex()) == ROUNDS[0]
    assert SharedSecret.from_text(f"{NEW.hex()}, {OLD.hex()}") == ROUNDS[2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "16 bytes"),
        ("ab" * 15, "16 bytes"),
        ("ab" * 16 + ",", "16 bytes"),
        ("xy" * 16, "hexadecimal"),
        ("ab" * 16 + "," + "ab" * 16, "twice"),
    ],
)
def test_what_is_wrong_is_told_and_never_quoted(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        SharedSecret.from_text(text)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("one", range(4))
@pytest.mark.parametrize("other", range(4))
def test_neighbouring_rounds_understand_each_other(one: int, other: int) -> None:
    """A proof by a secret that the other does not know is refused: the first and last rounds of a
    change.
    """
    proof = ROUNDS[one].prove(b"text")
    understood = ROUNDS[one].first in ROUNDS[other].every
    assert ROUNDS[other].verifies(proof, b"text") is understood
    assert understood or abs(one - other) > 1
    assert not ROUNDS[other].verifies(proof, b"another text")


def test_what_is_derived_keeps_the_order() -> None:
    for one, other in itertools.pairwise(ROUNDS):
        derived = one.derived(b"purpose")
        assert other.derived(b"purpose").verifies(derived.prove(b"text"), b"text")
        assert not other.verifies(derived.prove(b"text"), b"text")
        assert len(set(derived.every) | set(one.every)) == 2 * len(one.every)


def test_it_is_not_shown() -> None:
    shown = f"{ROUNDS[1]!r} {ROUNDS[1]}"
    assert "oooo" not in shown
    assert OLD.hex() not in shown
