"""Published values arrive as they were sent, or are refused with the path of the wrong part."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pydantic
import pytest
from packetboat import Client, Edit, Emit, Outgoing, Output, ScheduleMessage
from packetboat.calls.bodies import content_members
from packetboat.codec import decoder, encode_data, encode_json
from packetboat.models import Message
from packetboat.publisher.pending import pending
from packetboat.tasks.values import encode as encode_task_value
from packetboat.worker.emit import check_outputs

from tests.unit.sdk.sdk_support import Script, ok


@dataclasses.dataclass
class Line:
    name: str
    price: float


class Order(msgspec.Struct, rename="camel"):
    order_id: int
    items: list[Line]


class Sale(pydantic.BaseModel):
    """`total` is called otherwise on the wire."""

    total: float = pydantic.Field(alias="sum")
    at: datetime


class Basket(msgspec.Struct):
    """A model inside a Struct, and a Struct inside a dict."""

    sale: Sale
    orders: dict[str, Order]


LINE = Line("tea", 2.5)
ORDER = Order(1, [LINE])
SALE = Sale(sum=1.5, at=datetime(2026, 1, 1, tzinfo=UTC))
BASKET = Basket(SALE, {"a b": ORDER})


def got(data: Any, content_type: str | None = None) -> Message:
    """Return the message that a consumer gets for `data`."""
    body, kind = encode_data(data, content_type)
    is_text = kind is not None and kind.startswith("text/")
    raw = msgspec.Raw(msgspec.json.encode(body.decode()) if is_text else body)
    content = {"data": raw} if kind is not None else {"data_base64": body}
    return Message(
        message_id="m",
        ack_id="a",
        publish_time=datetime.now(UTC),
        partition=0,
        offset=0,
        content_type=kind,
        **content,
    )


@pytest.mark.parametrize("value", [LINE, ORDER, SALE, BASKET], ids=lambda v: type(v).__name__)
def test_a_value_comes_back_as_what_it_was(value: Any) -> None:
    assert got(value).json(type(value)) == value
    assert got([value]).json(list[type(value)]) == [value]


@pytest.mark.parametrize("data", [bytearray(b"\x00\xff"), memoryview(b"\x00\xff__")[:2]])
def test_bytes_likes_are_bytes(data: Any) -> None:
    """Such values were a JSON string of base64."""
    assert encode_data(data, None) == (b"\x00\xff", None)
    assert encode_data(data, "image/png") == (b"\x00\xff", "image/png")
    assert content_members(data, None) == {"data_base64": "AP8="}
    assert got(data).body == b"\x00\xff"


def test_a_slice_with_steps_is_copied() -> None:
    assert encode_data(memoryview(b"abcd")[::2], None)[0] == b"ac"


def not_finite(number: float) -> dict[str, Any]:
    lines = [LINE, LINE, LINE, Line("x", number)]
    return {
        "$": number,
        "$.price": Line("x", number),
        "$.items[3].price": Order(1, lines),
        "$.sum": Sale(sum=number, at=SALE.at),
        '$.orders["a b"].items[3].price': Basket(SALE, {"a b": Order(1, lines)}),
        "$.sale.sum": Basket(Sale(sum=number, at=SALE.at), {}),
        "$[1][0]": [None, (number, 1)],
        "$.null": {"a": None, "null": number},
    }


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("path", not_finite(0.0))
def test_nan_and_inf_are_refused_with_their_path(path: str, number: float) -> None:
    """Such numbers became null."""
    said = re.escape(f"{path} is {number}, and JSON has no such number")
    with pytest.raises(ValueError, match=f"^{said}$"):
        encode_json(not_finite(number)[path])


def test_what_is_null_stays_null() -> None:
    assert encode_json({"a": None, "b": ["null", 1.5]}) == b'{"a":null,"b":["null",1.5]}'


NAN = {"a": [math.nan]}
WAYS: dict[str, Callable[[Client], object]] = {
    "publish": lambda client: client.publish("t", NAN),
    "publish_batch": lambda client: client.publish_batch("t", [1, NAN]),
    "publish_early": lambda client: client.publish_early("t", Outgoing(data=NAN)),
    "ack": lambda client: client.ack("s", "a", publish=[Output(topic="t", data=NAN)]),
    "schedule": lambda client: client.schedules.create(
        "s", topic="t", cron="* * * * *", message=ScheduleMessage(data=NAN)
    ),
    "redrive": lambda client: client.dead_letters.redrive("s", edit=Edit(data=NAN)),
    "emit": lambda client: check_outputs([Emit("t", NAN)]),
    "task": lambda client: encode_task_value(NAN),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_publish_has_this_codec(way: str) -> None:
    script = Script(ok({}))
    with Client(transport=script) as client, pytest.raises(ValueError, match=r"\$\.a\[0\] is nan"):
        WAYS[way](client)
    assert script.requests == []


def test_a_model_is_published_under_the_names_that_it_is_read_by() -> None:
    none = (None,) * 10
    encoded = msgspec.msgpack.decode(pending(SALE, *none[:3], 0, *none[:6]).encoded)
    assert decoder(Sale)(encoded["data"]) == SALE
    assert b'"sum":1.5' in encoded["data"]


def test_what_has_no_form_is_said() -> None:
    with pytest.raises(TypeError, match="object has no form in JSON"):
        encode_json({"a": object()})
