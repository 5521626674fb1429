"""Reads how attempts are chosen, and which messages are to be replayed."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UNSET

from edge.asgi import Scope
from edge.bodies import decode
from edge.parameters import Query, refused, text_of
from edge.problem import FieldError, Problem, invalid
from metadata.subscriptions.push_attempts import END
from openapi.common import PAGE_SIZE, PAGE_TOKEN
from openapi.push import ATTEMPT_MESSAGE_ID, ATTEMPT_OUTCOME, PushReplayRequest

MAX_BODY_BYTES = 256 * 1024


class AttemptQuery(NamedTuple):
    """The parameters of a listing of attempts."""

    page_size: int
    before: bytes
    outcome: str | None
    message_id: str | None


_REPLAY = msgspec.json.Decoder(PushReplayRequest)


def replay_of(body: bytes) -> PushReplayRequest:
    """Return the replay of a body. Raise a 422 Problem unless it has exactly one of the two
    forms."""
    given = decode(body, _REPLAY)
    if given.message_ids is not UNSET:
        if given.from_ is not None or given.to is not None:
            raise _refused("message_ids", "either message_ids, or from and to")
    elif given.from_ is None or given.to is None:
        raise _refused("from", "give message_ids, or both from and to")
    elif given.to <= given.from_:
        raise _refused("to", "later than from")
    return given


def attempts_of(scope: Scope) -> AttemptQuery:
    """Return the parameters of a listing. Raise a 400 Problem that names the parameter."""
    query = Query(scope)
    return AttemptQuery(
        query.integer(PAGE_SIZE),
        _before(query.page_token()),
        query.choice(ATTEMPT_OUTCOME),
        text_of(ATTEMPT_MESSAGE_ID, query.text("message_id")),
    )


def token_of(last: bytes) -> str:
    """Return the token of the page behind an attempt."""
    return last.hex()


def _before(token: str | None) -> bytes:
    if token is None:
        return END
    try:
        uid = bytes.fromhex(token)
    except ValueError:
        uid = b""
    if len(uid) != len(END):
        raise refused(PAGE_TOKEN, "a next_page_token of this listing")
    return uid


def _refused(field: str, detail: str) -> Problem:
    return invalid("The body does not fit.", [FieldError(field, detail)])
