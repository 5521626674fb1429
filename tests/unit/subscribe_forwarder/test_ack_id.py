"""Ack ids: what one opens is what was minted, and nothing else opens."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.types import Epoch
from peering.shared_secret import SharedSecret
from subscribe_forwarder.delivery.ack_id import BadAckId, Head, Minter, parse_head

KEY = SharedSecret(b"k" * 32)
U32 = st.integers(0, 2**32 - 1)
heads = st.builds(
    Head,
    st.binary(min_size=16, max_size=16),
    U32,
    U32,
    st.integers(0, 255),
    st.builds(Epoch, U32, U32),
)
HEAD = Head(b"s" * 16, 1, 2, 0, Epoch(0, 3))


@given(heads, st.integers(0, 2**64 - 1), st.integers(1, 0xFFFF))
def test_round_trip(head: Head, offset: int, attempt: int) -> None:
    minter = Minter(head, KEY)
    text = minter.mint(offset, attempt).decode()
    assert re.fullmatch(r"[A-Za-z0-9_-]{72}", text)
    assert text.startswith(minter.prefix)
    assert parse_head(text) == head
    assert Minter(parse_head(text), KEY).open(text) == (attempt, offset)


@given(st.integers(0, 71), st.characters(max_codepoint=0x100))
def test_a_changed_character_does_not_open(at: int, other: str) -> None:
    text = Minter(HEAD, KEY).mint(77, 1).decode()
    forged = text[:at] + other + text[at + 1 :]
    if forged == text:
        return
    with pytest.raises(BadAckId):
        Minter(parse_head(forged), KEY).open(forged)


def test_another_key_does_not_open() -> None:
    with pytest.raises(BadAckId):
        Minter(HEAD, SharedSecret(b"other key of 32 bytes, no secret")).open(
            Minter(HEAD, KEY).mint(1, 1).decode()
        )


def test_while_the_key_is_changed_ids_of_both_open_and_the_first_makes_them() -> None:
    old, new = b"k" * 32, b"n" * 32
    rounds = [(old,), (old, new), (new, old), (new,)]
    for before, after in itertools.pairwise(rounds):
        one, other = (Minter(HEAD, SharedSecret(keys[0], keys[1:])) for keys in (before, after))
        assert one.open(other.mint(7, 2).decode()) == (2, 7)
        assert other.open(one.mint(7, 2).decode()) == (2, 7)
    assert Minter(HEAD, SharedSecret(new, (old,))).mint(7, 2) == Minter(
        HEAD, SharedSecret(new)
    ).mint(7, 2)
    with pytest.raises(BadAckId):
        Minter(HEAD, SharedSecret(new)).open(Minter(HEAD, KEY).mint(7, 2).decode())


@pytest.mark.parametrize("text", ["", "x", "=" * 72, "é" * 72, "A" * 71, "A" * 73, "A" * 72])
def test_what_is_no_ack_id_is_refused(text: str) -> None:
    with pytest.raises(BadAckId):
        Minter(parse_head(text), KEY).open(text)


def test_attempts_saturate() -> None:
    minter = Minter(HEAD, KEY)
    assert minter.open(minter.mint(5, 70_000).decode()) == (0xFFFF, 5)
