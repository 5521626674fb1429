"""Message ids are printed into logs and databases of others: their text is frozen."""

from __future__ import annotations

import contextlib
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.message_id import (
    FORM_OFFSET,
    FORM_STAGE,
    BadMessageId,
    MessageId,
    parse,
    prefix,
    run_together,
    staged,
    staged_number,
    suffix,
)

UID = bytes(range(16))
GOLDEN = {
    MessageId(FORM_OFFSET, UID, 3, 0, 7): "AQABAgMEBQYHCAkKCwwNDg8AAAADAAAAAAAAAAAH",
    MessageId(FORM_STAGE, UID, 2**32 - 1, 255, 2**64 - 1): (
        "AgABAgMEBQYHCAkKCwwNDg__________________"
    ),
}


@pytest.mark.parametrize(("message_id", "text"), GOLDEN.items())
def test_golden(message_id: MessageId, text: str) -> None:
    assert str(message_id) == text
    assert parse(text) == message_id


@given(
    st.sampled_from([FORM_OFFSET, FORM_STAGE]),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.integers(0, 2**64 - 1),
)
def test_round_trip(form: int, uid: bytes, partition: int, lane: int, number: int) -> None:
    message_id = MessageId(form, uid, partition, lane, number)
    text = prefix(uid, partition, form) + suffix(number, lane)
    assert text == str(message_id)
    assert len(text) == 40
    assert parse(text) == message_id


@given(st.text(max_size=60))
def test_other_text_is_refused_or_canonical(text: str) -> None:
    with contextlib.suppress(BadMessageId):
        assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A" * 39,
        "A" * 41,
        "=" * 40,
        "é" * 40,
        "A" * 40,
        "/" * 40,
        "AwABAgMEBQYHCAkKCwwNDg8AAAADAAAAAAAAAAAH",
    ],
)
def test_not_ours(text: str) -> None:
    with pytest.raises(BadMessageId):
        parse(text)


def test_a_staged_id_says_its_generation_and_number() -> None:
    last = (1 << 40) - 1
    made = staged(UID, 5, 3, last)
    assert (made.form, made.partition, made.lane) == (FORM_STAGE, 5, 0)
    assert (made.generation, made.stage_number) == (3, last)
    assert parse(str(made)) == made != staged(UID, 5, 4, last)
    assert str(made) == prefix(UID, 5, FORM_STAGE) + suffix(staged_number(3, last))


@given(
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**32 - 1),
    st.integers(0, 255),
    st.lists(st.integers(0, 2**63 - 1), max_size=20),
)
def test_many_at_once_are_those_made_one_by_one(
    uid: bytes, partition: int, lane: int, offsets: list[int]
) -> None:
    ids = [str(MessageId(FORM_OFFSET, uid, partition, lane, offset)) for offset in offsets]
    assert run_together(uid, partition, lane, array("q", offsets)).decode() == "".join(ids)
