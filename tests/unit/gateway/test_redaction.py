"""The audit keeps no secret of a request, whatever its name and wherever it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tenancy.redaction import LEFT_OUT, REDACTED, members_of, redacted
from tests.loop_cpu import MAX_CALLBACK_MS, cpu_ms


def kept(value: object) -> Any:
    return members_of(msgspec.json.encode(value))


@pytest.mark.parametrize(
    "name",
    [
        "secret",
        "client_secret",
        "Password",
        "access_token",
        "Authorization",
        "private_key",
        "signing_secrets",
        "api_key",
        "apikey",
        "set_cookie",
        "credentials",
        "client_assertion",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", ["hunter2"], {"now": "hunter2"}])
def test_members_are_left_out_by_name(name: str, value: object) -> None:
    assert kept({"a": {name: value}}) == {"a": {name: REDACTED}}


@pytest.mark.parametrize(
    "value",
    [
        "pbs_abc",
        "pbk_abc_def",
        "pbdev_abc",
        "whsec_abc",
        "whsk_abc",
        "Bearer abc",
        "basic YTpi",
        "eyJhbGciOiJub25lIn0.e30.",
        "-----BEGIN PRIVATE KEY-----",
        "as pbs_abc says",
    ],
)
def test_members_are_left_out_by_value(value: str) -> None:
    assert kept({"note": value, "list": [value]}) == {"note": REDACTED, "list": [REDACTED]}


def test_headers_keep_their_names() -> None:
    body = {"push": {"headers": {"X-Auth": "hunter2", "X-More": "hunter3"}}}
    assert kept(body) == {"push": {"headers": {"X-Auth": REDACTED, "X-More": REDACTED}}}


def test_payload_is_left_out() -> None:
    body = {"message": {"data": {"card": "4111"}, "key": "k"}}
    assert kept(body) == {"message": {"data": LEFT_OUT, "key": "k"}}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ann:hunter2@hooks.example/in", "https://hooks.example/in"),
        ("https://hooks.example/in?code=hunter2", f"https://hooks.example/in?{REDACTED}"),
        ("https://hooks.example/in#hunter2", f"https://hooks.example/in?{REDACTED}"),
        ("https://hooks.example/in", "https://hooks.example/in"),
    ],
)
def test_urls_keep_where_they_lead(url: str, shown: str) -> None:
    assert kept({"url": url}) == {"url": shown}


def test_what_is_no_secret_is_kept() -> None:
    body = {"name": "a", "partitions": 4, "labels": {"team": "x"}, "on": True, "none": None}
    assert kept(body) == body


def test_numbers_beside_secret_names_are_kept() -> None:
    assert kept({"token_ttl_seconds": 5}) == {"token_ttl_seconds": 5}


@pytest.mark.parametrize("body", [b"", b"[1]", b"no JSON", b'"text"', b"\xff", b"[" * 100_000])
def test_of_what_is_no_object_nothing_is_kept(body: bytes) -> None:
    assert members_of(body) == {}


def test_what_is_too_much_is_named_only() -> None:
    body = {f"n{i}": "x" * 250 for i in range(49)}
    assert kept(body) == dict.fromkeys(body, LEFT_OUT)
    long = kept({"list": list(range(1000)), "text": "x" * 1000})
    assert long["list"][-1] == LEFT_OUT
    assert len(long["text"]) < 300
    deep: Any = "x"
    for _ in range(50):
        deep = {"d": deep}
    assert LEFT_OUT in str(kept(deep))


anything = st.characters(categories=None)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(anything),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(anything), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_whatever_is_kept_can_be_stored(body: dict[str, Any]) -> None:
    """The jsonb of Postgres takes no NUL, no half of a pair, and no number that JSON lacks."""
    for leaf in leaves(redacted(body)):
        if isinstance(leaf, str):
            assert "\0" not in leaf
            leaf.encode()
        elif isinstance(leaf, float):
            assert math.isfinite(leaf)
        elif isinstance(leaf, int):
            assert abs(leaf) < 2**63


def leaves(value: Any) -> Iterator[Any]:
    """Yield each value within, and the names of members."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def test_a_body_of_very_many_values_costs_little_and_nothing_of_it_is_kept() -> None:
    """Handlers refuse such a body unread. The audit once read it before them, which took 25 ms, and
    50 on a busy machine."""
    body = b'{"name":' + b"[" * 200 + b"[]," * 80_000 + b"[]" + b"]" * 200 + b"}"
    took_ms, found = min(cpu_ms(lambda: members_of(body)) for _ in range(3))
    assert found == {}
    assert took_ms < MAX_CALLBACK_MS / 10
