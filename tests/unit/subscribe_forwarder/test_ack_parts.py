"""Test which owner gets which ids of a request, and how their answers become one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from edge import message_id
from edge.message_id import MessageId
from metadata.types import Epoch
from openapi.consume import Acked, AckedOutput, Done, ItemFailure
from subscribe_forwarder.api.ack_parts import ANYWHERE, by_partition, merged, part_body
from subscribe_forwarder.api.items import Ids
from subscribe_forwarder.delivery.ack_id import Head, Minter
from subscribe_forwarder.delivery.reading.staged import Nowhere, Where
from tests.unit.subscribe_forwarder.subscribe_support import (
    ACK_KEY,
    SUBSCRIPTION_UID,
    TOPIC_UID,
    subscription,
    topic,
)

ELSE = b"e" * 16


def ack_id_of(partition: int, uid: bytes = SUBSCRIPTION_UID) -> str:
    return Minter(Head(uid, 1, partition, 0, Epoch(0, 1)), ACK_KEY).mint(7, 1).decode()


async def nothing_staged(wanted: Sequence[MessageId]) -> Sequence[Where | Nowhere]:
    assert not wanted
    return ()


async def parts(field: str, *texts: str) -> dict[int, list[int]]:
    return await by_partition(Ids(field, texts), subscription(), topic(3), nothing_staged)


async def test_ack_ids_go_to_their_partition() -> None:
    texts = [ack_id_of(2), ack_id_of(0), ack_id_of(2), "nonsense", ack_id_of(1, ELSE)]
    assert await parts("ack_id", *texts) == {2: [0, 2], 0: [1], ANYWHERE: [3, 4]}


async def test_message_ids_go_to_their_partition() -> None:
    texts = [
        str(MessageId(message_id.FORM_OFFSET, TOPIC_UID, 1, 0, 5)),
        str(MessageId(message_id.FORM_OFFSET, ELSE, 1, 0, 5)),
        str(MessageId(message_id.FORM_OFFSET, TOPIC_UID, 3, 0, 5)),
        "nonsense",
    ]
    assert await parts("message_id", *texts) == {1: [0], ANYWHERE: [1, 2, 3]}


async def test_staged_ids_go_to_where_they_are_found() -> None:
    ids = [message_id.staged(TOPIC_UID, 0, 0, number) for number in range(2)]

    async def locate(wanted: Sequence[MessageId]) -> Sequence[Where | Nowhere]:
        assert list(wanted) == ids
        return [Where(2, 9), Nowhere.UNKNOWN]

    texts = [str(one) for one in ids]
    found = await by_partition(Ids("message_id", texts), subscription(), topic(3), locate)
    assert found == {2: [0], 0: [1]}


def test_a_part_is_the_request_with_some_of_its_ids() -> None:
    body = b'{"ack_ids":["a","b","c"],"delay_seconds":1.50,"reason":"r"}'
    part = part_body(body, Ids("ack_id", ["a", "b", "c"]), [0, 2])
    assert msgspec.json.decode(part) == {
        "ack_ids": ["a", "c"],
        "delay_seconds": 1.5,
        "reason": "r",
    }
    single = part_body(b'{"message_id":"a"}', Ids("message_id", ["a"]), [0])
    assert msgspec.json.decode(single) == {"message_ids": ["a"]}


def test_answers_are_added_and_name_the_places_of_the_request() -> None:
    for kind in (Acked, Done):
        parts = [([1, 3], kind(1, [failure(1, 409)])), ([0, 2], kind(1, [failure(0, 400)]))]
        assert merged(parts) == kind(2, [failure(0, 400), failure(3, 409)])


def failure(index: int, status: int) -> ItemFailure:
    return ItemFailure(index=index, status=status, type="x")


def test_what_one_answer_has_beside_stays() -> None:
    answer = Acked(1, [], published=[AckedOutput("m")], duplicate=True)
    assert merged([([0], answer)]) == answer
