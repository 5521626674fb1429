"""Bodies are read with the contract's classes, and refused by field."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from edge.bodies import CONTROL, OF_MESSAGES, OF_OPERATORS, Bounds, decode, read
from edge.problem import Problem
from openapi.contract import Body


class Sized(Body):
    size: Annotated[int, msgspec.Meta(ge=1, le=9)] | None = None
    share: float = 0.5


SIZED = msgspec.json.Decoder(Sized)


@pytest.mark.parametrize("text", ["3", "3.0", "3e0", "0.3e1"])
def test_a_whole_number_is_an_integer_however_it_is_written(text: str) -> None:
    assert decode(b'{"size":%b}' % text.encode(), SIZED) == Sized(3)


@pytest.mark.parametrize("text", ["3.5", "10.0", "1e300", "1e400", '"3"', "true"])
def test_another_number_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        decode(b'{"size":%b}' % text.encode(), SIZED)
    assert [error.field for error in refused.value.errors] in (["size"], [])
    assert refused.value.status in (400, 422)


@pytest.mark.parametrize("bounds", [CONTROL, OF_OPERATORS])
def test_a_member_that_is_named_twice_is_refused_where_little_is_said(bounds: Bounds) -> None:
    body = b'{"size":3,"size":4}'
    with pytest.raises(Problem, match="twice"):
        read(body, Sized, bounds)
    assert read(body, Sized, OF_MESSAGES) == Sized(4)


@pytest.mark.parametrize("number", [b"1e999999", b"9" * 5000])
def test_a_number_that_nothing_can_hold_is_no_json_of_the_control_plane(number: bytes) -> None:
    with pytest.raises(Problem, match="not JSON") as refused:
        read(b'{"size":' + number + b"}", Sized, CONTROL)
    assert (refused.value.status, refused.value.slug) == (400, "malformed-body")
