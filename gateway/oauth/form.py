"""A request to an OAuth2 endpoint: its form, and the client's credentials, read with bounds."""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote_plus

from authlib.oauth2.rfc6749 import InvalidClientError, InvalidRequestError

from edge.asgi import Receive, Scope, header, read_body

MAX_BODY_BYTES = 32 * 1024
"""A token to be looked at is the largest of what comes."""
MAX_FIELDS = 16
MAX_CREDENTIAL_CHARACTERS = 256
FORM = b"application/x-www-form-urlencoded"


class Credentials(NamedTuple):
    """The credentials as they came; nothing is checked."""

    client_id: str
    secret: str


async def read_form(scope: Scope, receive: Receive) -> dict[str, str]:
    """Raises a 413 Problem, ClientGone or InvalidRequestError."""
    body = await read_body(scope, receive, MAX_BODY_BYTES)
    content_type = (header(scope, b"content-type") or b"").partition(b";")[0].strip().lower()
    if content_type != FORM:
        raise InvalidRequestError(f"The content type must be {FORM.decode()}.")
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise InvalidRequestError(f"The body is no form of up to {MAX_FIELDS} fields.") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise InvalidRequestError("A parameter is there twice.")
    return form


def credentials_of(scope: Scope, form: dict[str, str]) -> Credentials:
    """Return the credentials from HTTP basic or the body, not both (RFC 6749 §2.3).

    Raises InvalidClientError or InvalidRequestError.
    """
    authorization = header(scope, b"authorization")
    in_body = "client_secret" in form
    if authorization is None:
        if not in_body or "client_id" not in form:
            raise refused("Send the client's id and secret, by HTTP basic or in the body.")
        return _bounded(Credentials(form["client_id"], form["client_secret"]))
    if in_body:
        raise InvalidRequestError("Send the client's secret in one way, not in two.")
    credentials = _bounded(_basic(authorization))
    if form.get("client_id", credentials.client_id) != credentials.client_id:
        raise InvalidRequestError("The client_id is another than that of the credentials.")
    return credentials


def refused(description: str = "The client's id or secret is not valid.") -> InvalidClientError:
    """401, the same whether there is no such client or its secret is another."""
    return InvalidClientError(description=description, status_code=401)


def _basic(authorization: bytes) -> Credentials:
    scheme, _, encoded = authorization.partition(b" ")
    if scheme.lower() != b"basic":
        raise refused("Send the client's id and secret by HTTP basic, or in the body.")
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        raise refused("The credentials are not base64 of id:secret.") from None
    client_id, colon, secret = text.partition(":")
    if not colon:
        raise refused("The credentials are not base64 of id:secret.")
    return Credentials(unquote_plus(client_id), unquote_plus(secret))


def _bounded(credentials: Credentials) -> Credentials:
    if not all(0 < len(part) <= MAX_CREDENTIAL_CHARACTERS for part in credentials):
        raise refused()
    return credentials
