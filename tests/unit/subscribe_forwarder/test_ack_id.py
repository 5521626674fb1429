"""Ack ids: what one opens is what was minted, and nothing else opens."""

from __future__ import annotations

import itertools
import re
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.types import Epoch
from peering.shared_secret import SharedSecret
from subscribe_forwarder.delivery.ack_id import BadAckId, Head, Minter, Run, parse_head

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


RUNS = st.lists(
    st.builds(Run, st.integers(0, 2**40), st.integers(1, 40), st.integers(1, 9)),
    min_size=1,
    max_size=8,
)


@given(RUNS, st.sets(st.integers(0, 200), min_size=1))
def test_the_numbers_of_a_page_ack_id_name_deliveries_of_its_runs(
    runs: list[Run], wanted: set[int]
) -> None:
    deliveries = [(run.first + at, run.attempt) for run in runs for at in range(run.messages)]
    numbers = sorted(wanted & set(range(len(deliveries)))) or [0]
    minter = Minter(HEAD, KEY)
    token = minter.token(runs).decode()
    ids = minter.open_page(f"{token}.{','.join(map(str, numbers))}")
    assert list(ids.numbers) == numbers
    named = list(zip(ids.offsets, ids.attempts, strict=True))
    assert named == [deliveries[number] for number in numbers]
    all_of_them = minter.open_page(f"{token}.0-{len(deliveries) - 1}")
    assert list(zip(all_of_them.offsets, all_of_them.attempts, strict=True)) == deliveries


@pytest.mark.parametrize("selection", ["{0}", "0-9999"])
def test_a_page_ack_id_costs_what_it_names(selection: str) -> None:
    """A request has up to 1,000 ids: each once made lists of all deliveries of its page, 9,999 of
    them for an id that names more than its page has.
    """
    minter = Minter(HEAD, KEY)
    token = minter.token([Run(100, 1000, 1)]).decode()
    began_s = time.thread_time()
    for number in range(1000):
        with suppress(BadAckId):
            minter.open_page(f"{token}.{selection.format(number)}")
    assert time.thread_time() - began_s < 0.05
