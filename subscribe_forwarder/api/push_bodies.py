"""Strict reading of what attempts are chosen by, and of what is to be replayed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, NamedTuple
from urllib.parse import parse_qs

import msgspec

from edge.asgi import Scope
from edge.problem import FieldError, Problem, invalid
from metadata.subscriptions.push_attempts import END
from subscribe_forwarder.api.bodies import decode
from subscribe_forwarder.push.verdict import Outcome

MAX_BODY_BYTES = 256 * 1024
MAX_IDS = 1_000
MAX_REPLAYED = 10_000

Ids = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=256)]], msgspec.Meta(min_length=1, max_length=1_000)
]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class ReplayBody(msgspec.Struct, forbid_unknown_fields=True):
    """Either ids, or a span of time."""

    message_ids: Ids | None = None
    from_: Moment | None = msgspec.field(default=None, name="from")
    to: Moment | None = None
    max_messages: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPLAYED)] = 1_000


class AttemptQuery(NamedTuple):
    """What a listing of attempts is asked for."""

    page_size: int
    before: bytes
    outcome: str | None
    message_id: str | None


_REPLAY = msgspec.json.Decoder(ReplayBody)
_OUTCOMES = [outcome.value for outcome in Outcome]


def replay_of(body: bytes) -> ReplayBody:
    """422 unless it has exactly one of the two forms."""
    given = decode(body, _REPLAY)
    if given.message_ids is not None:
        if given.from_ is not None or given.to is not None:
            raise _refused("message_ids", "either message_ids, or from and to")
    elif given.from_ is None or given.to is None:
        raise _refused("from", "give message_ids, or both from and to")
    elif given.to <= given.from_:
        raise _refused("to", "later than from")
    return given


def attempts_of(scope: Scope) -> AttemptQuery:
    """400 naming the parameter that does not fit; the last of a repeated one counts."""
    raw = scope["query_string"].decode("ascii", "replace")
    values = parse_qs(raw, keep_blank_values=True, errors="replace")
    given = {name: texts[-1] for name, texts in values.items()}
    size = given.get("page_size", "100")
    if not (size.isascii() and size.isdigit() and len(size) <= 4 and 1 <= int(size) <= 1000):
        raise _refused("page_size", "an integer from 1 to 1000", status=400)
    outcome = given.get("outcome")
    if outcome is not None and outcome not in _OUTCOMES:
        raise _refused("outcome", f"one of {', '.join(_OUTCOMES)}", status=400)
    message_id = given.get("message_id")
    if message_id is not None and not 0 < len(message_id) <= 256:
        raise _refused("message_id", "an id of a message", status=400)
    return AttemptQuery(int(size), _before(given.get("page_token")), outcome, message_id)


def token_of(last: bytes) -> str:
    """Where the next page begins: behind that attempt."""
    return last.hex()


def _before(token: str | None) -> bytes:
    if not token:
        return END
    try:
        uid = bytes.fromhex(token)
    except ValueError:
        uid = b""
    if len(uid) != len(END):
        raise _refused("page_token", "a next_page_token of this listing", status=400)
    return uid


def _refused(field: str, detail: str, *, status: int = 422) -> Problem:
    what = "The request" if status == 400 else "The body"
    return invalid(f"{what} does not fit.", [FieldError(field, detail)], status=status)
