"""Reading a compact JWS: one text has one form, and nothing is named twice."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth.errors import TokenRefused
from auth.jws import MAX_KID_CHARACTERS, kid_of, looks_like_one, read


def _b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def test_reads_header_and_claims() -> None:
    token = b".".join((_b64(b'{"alg":"RS256"}'), _b64(b'{"sub":"a"}'), _b64(b"s")))
    assert read(token) == ({"alg": "RS256"}, {"sub": "a"})
    assert looks_like_one(token)
    assert not looks_like_one(b"pbk_abc_def")
    assert not looks_like_one(b"eyJhbGciOiJub25lIn0.e30")


def test_a_text_has_one_form() -> None:
    """`AQ` and `AR` are the same byte to decoders that ignore the left-over bits."""
    for last in (b"AR", b"AQ=", b"AQ==", b"A", b"A+", b"A Q"):
        with pytest.raises(TokenRefused):
            read(b".".join((_b64(b"{}"), _b64(b"{}"), last)))
    assert read(b".".join((_b64(b"{}"), _b64(b"{}"), b"AQ"))) == ({}, {})


@pytest.mark.parametrize(
    "text", [b'{"a":1,"a":1}', b'{"b":{"a":1,"a":2}}', b'{"b":[{"a":1,"a":2}]}']
)
def test_nothing_is_named_twice_at_any_depth(text: bytes) -> None:
    for header, claims in ((text, b"{}"), (b"{}", text)):
        with pytest.raises(TokenRefused):
            read(b".".join((_b64(header), _b64(claims), b"AQ")))


@given(st.binary(max_size=300) | st.text(alphabet="eyJ.-_A=", max_size=300).map(str.encode))
def test_any_bytes_are_refused_or_read(token: bytes) -> None:
    try:
        header, claims = read(token)
    except TokenRefused:
        return
    assert isinstance(header, dict)
    assert isinstance(claims, dict)


@pytest.mark.parametrize("kid", [None, 1, "", "k" * (MAX_KID_CHARACTERS + 1), ["k"], {}])
def test_a_kid_is_a_short_text(kid: object) -> None:
    with pytest.raises(TokenRefused):
        kid_of({"kid": kid})
    assert kid_of({"kid": "k" * MAX_KID_CHARACTERS})
