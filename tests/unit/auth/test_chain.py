from __future__ import annotations

import base64
import json

import pytest

from auth.chain import Chain
from auth.errors import TokenRefused
from auth.principal import Principal, everything


class Named:
    def __init__(self, name: str) -> None:
        self.principal = Principal(b"t" * 16, name, everything())

    async def verify(self, token: bytes) -> Principal:
        return self.principal


def jwt(issuer: object) -> bytes:
    parts = ({"alg": "RS256"}, {"iss": issuer})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return b".".join([*texts, b"AAAA"])


@pytest.mark.parametrize(
    ("token", "who"),
    [
        (b"pbk_x", "keys"),
        (b"pbdev_x", "dev"),
        (b"something", "dev"),
        (jwt("https://us"), "ours"),
        (jwt("https://us/"), "others"),
        (jwt(["https://us"]), "others"),
        (jwt(None), "others"),
    ],
)
async def test_who_is_asked(token: bytes, who: str) -> None:
    chain = Chain(
        issuer="https://us",
        access_tokens=Named("ours"),
        api_keys=Named("keys"),
        issuers=Named("others"),
        development=Named("dev"),
    )
    assert (await chain.verify(token)).subject == who
    with pytest.raises(TokenRefused):
        await Chain(issuer="https://us").verify(token)
