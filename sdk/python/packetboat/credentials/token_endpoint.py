"""Requests to a token endpoint, and the meaning of its answers.

After any failure there, the call that needed the token was not sent: nothing took effect.
"""

from __future__ import annotations

import base64
import random
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from packetboat.credentials.kinds import ClientCredentials
from packetboat.errors import (
    ConnectionFailed,
    NotAuthorized,
    NotDone,
    Overloaded,
    PacketboatError,
    Problem,
    Unavailable,
)
from packetboat.transport.seam import Request, Response

PATH = "/oauth/token"
TIMEOUT_S = 10.0
UNSAID_S = 300.0
"""Seconds that a token holds if the answer does not say it."""
MARGIN_S = 5.0
"""Seconds before its end at which a token is no longer sent: the request takes time, and
clocks differ.
"""


class AccessToken(NamedTuple):
    """Times are of the monotonic clock. From `renew_s` on another is asked for; this one is good
    until `ends_s`."""

    value: str
    renew_s: float
    ends_s: float


class _Answer(msgspec.Struct):
    access_token: str
    expires_in: float = UNSAID_S


class _Refusal(msgspec.Struct):
    error: str = "unknown"
    error_description: str = ""


def origin(credentials: ClientCredentials) -> str | None:
    """Return the origin of the token endpoint, where it is not the servers' own."""
    if credentials.token_url is None:
        return None
    parts = urlsplit(credentials.token_url)
    return f"{parts.scheme}://{parts.netloc}"


def request(credentials: ClientCredentials) -> Request:
    path = PATH
    if credentials.token_url is not None:
        parts = urlsplit(credentials.token_url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    form = {"grant_type": "client_credentials"}
    if credentials.scope is not None:
        form["scope"] = credentials.scope
    if credentials.audience is not None:
        form["audience"] = credentials.audience
    headers = {
        "Authorization": f"Basic {_basic(credentials)}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    return Request("POST", path, headers, urlencode(form).encode(), TIMEOUT_S)


def read(response: Response, now_s: float) -> AccessToken:
    """Return the token, or raise the error.

    Clients that began together get different times of renewal.
    """
    if response.status != 200:
        raise _refused(response)
    try:
        answer = msgspec.json.decode(response.body, type=_Answer)
    except msgspec.MsgspecError as error:
        raise _unavailable(f"the token endpoint's answer makes no sense: {error}") from error
    holds_s = max(answer.expires_in - MARGIN_S, 0.0)
    return AccessToken(
        answer.access_token, now_s + holds_s * random.uniform(0.7, 0.85), now_s + holds_s
    )


def not_sent(error: PacketboatError) -> NotDone:
    """Return the reason why there is no token.

    The outcome of the token request may be unknown; the call itself was not sent.
    """
    if isinstance(error, NotDone):
        return error
    return ConnectionFailed(f"no access token: {error}")


def _refused(response: Response) -> NotDone:
    try:
        refusal = msgspec.json.decode(response.body, type=_Refusal)
    except msgspec.MsgspecError:
        refusal = _Refusal()
    detail = f"no access token: {refusal.error_description or refusal.error}"
    problem = Problem(type=refusal.error, status=response.status, detail=detail)
    after = response.headers.get("retry-after", "")
    retry_after_s = float(after) if after.isdigit() else None
    if response.status == 429:
        return Overloaded(problem, retry_after_s)
    if response.status < 500 and response.status != 408:
        return NotAuthorized(problem)
    return Unavailable(problem, retry_after_s)


def _unavailable(detail: str) -> NotDone:
    return Unavailable(Problem(type="token-endpoint", status=503, detail=detail))


def _basic(credentials: ClientCredentials) -> str:
    """Return the credentials for Basic, both encoded before they are joined: RFC 6749, 2.3.1."""
    pair = f"{quote(credentials.client_id, safe='')}:{quote(credentials.client_secret, safe='')}"
    return base64.b64encode(pair.encode()).decode()
