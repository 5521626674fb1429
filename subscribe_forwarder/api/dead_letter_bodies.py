"""Reads the requests about dead letters: how they are chosen, and how they are changed."""

from __future__ import annotations

from binascii import b2a_base64
from typing import Any, Literal, NamedTuple

import msgspec

from edge import expressions as filters
from edge.asgi import Scope
from edge.bodies import decode
from edge.expressions import BadExpression
from edge.expressions.ahead import read_ahead
from edge.parameters import Query, text_of
from edge.problem import FieldError, Problem, invalid, not_found
from metadata.subscriptions.redrives import RedriveSpec
from openapi import dead_letters as contract
from openapi.common import PAGE_SIZE
from openapi.publish import MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTE_NAME_BYTES, MAX_KEY_BYTES
from outbox.dead_letter import PREFIX
from outbox.dead_letter_filter import VARIABLES, Filter, compile_filter
from subscribe_forwarder.delivery.reading.render import is_json

MAX_BODY_BYTES = 1024 * 1024


class Edit(contract.RedriveEdit):
    """The changes of each letter. The JSON of its data stays as it came."""

    data: msgspec.Raw = msgspec.Raw()


class Redrive(contract.RedriveRequest):
    """The body of a redrive."""

    edit: Edit | None = None

    def spec(self) -> RedriveSpec:
        """Return the redrive that is asked for. Raise a 422 Problem that names the field."""
        return RedriveSpec(
            filter=self.filter,
            uids=uids_of(self),
            destination=None if self.to == contract.TO_SUBSCRIPTION else self.to,
            edit={} if self.edit is None else _changes(self.edit),
            rate=self.rate,
        )


class PageQuery(NamedTuple):
    """The parameters of a listing."""

    page_size: int
    page_token: str | None
    state: contract.State
    filter: Filter | None


_DISCARD = msgspec.json.Decoder(contract.DiscardRequest)
_REDRIVE = msgspec.json.Decoder(Redrive)


def discard_of(body: bytes) -> contract.DiscardRequest:
    """Return the choice of a discard. Raise a 422 Problem unless it has exactly one form."""
    given = decode(body, _DISCARD)
    if given.filter is None and given.ids is None:
        raise _refused("filter", "give filter or ids; the filter true takes all")
    return given


def redrive_of(body: bytes) -> Redrive:
    """Return the redrive of a body, which may be empty."""
    return decode(body or b"{}", _REDRIVE)


def uids_of(choice: contract.DiscardRequest | contract.RedriveRequest) -> list[bytes] | None:
    """Return the chosen uids. Raise a 422 Problem for both forms, and for a text that is no id."""
    if choice.ids is None:
        return None
    if choice.filter is not None:
        raise _refused("ids", "either filter or ids")
    uids = [uid_of(text) for text in choice.ids]
    if None in uids:
        raise _refused(f"ids[{uids.index(None)}]", "the id of a dead letter")
    return [uid for uid in uids if uid is not None]


async def filter_of(
    scope: Scope, choice: contract.DiscardRequest | contract.RedriveRequest
) -> Filter | None:
    """Return the compiled filter of a choice. Raise a 422 Problem."""
    return None if choice.filter is None else await _compiled(scope, choice.filter, status=422)


async def page_of(scope: Scope) -> PageQuery:
    """Return the parameters of a listing. Raise a 400 Problem that names the parameter."""
    query = Query(scope)
    text = text_of(contract.LETTER_FILTER, query.text("filter"))
    return PageQuery(
        query.integer(PAGE_SIZE),
        query.page_token(),
        query.choice(contract.LETTER_STATE),
        None if text is None else await _compiled(scope, text, status=400),
    )


async def _compiled(scope: Scope, text: str, *, status: Literal[400, 422]) -> Filter:
    """Return a filter. Raise a Problem of that status."""
    await read_ahead(scope, text, VARIABLES)
    try:
        filters.compile_filter(text, VARIABLES)
        return compile_filter(text)
    except BadExpression as error:
        errors = [error.field_error("filter")]
        raise invalid("The filter does not fit.", errors, status=status) from error


def uid_of(text: str) -> bytes | None:
    """Return the uid of an id that `uid.hex()` makes; None for another text."""
    try:
        uid = bytes.fromhex(text)
    except ValueError:
        return None
    return uid if len(uid) == 16 and uid.hex() == text else None


def uid_in_path(kind: str, text: str) -> bytes:
    """Return the uid of an id in a path. Raise a 404 Problem for another text."""
    uid = uid_of(text)
    if uid is None:
        raise not_found(kind, text)
    return uid


def _changes(edit: Edit) -> dict[str, Any]:
    """Return the changes as `Redrive.edit` has them. Raise a 422 Problem that names the field."""
    changes: dict[str, Any] = {}
    if edit.attributes:
        changes["attributes"] = _checked(edit.attributes)
    content_type = edit.content_type
    if edit.data:
        data, content_type = _data(edit)
        changes["data_base64"] = b2a_base64(data, newline=False).decode()
    elif edit.data_base64 is not None:
        changes["data_base64"] = b2a_base64(edit.data_base64, newline=False).decode()
    if content_type is not None:
        changes["content_type"] = content_type
    if edit.key is not msgspec.UNSET:
        if edit.key is not None and len(edit.key.encode()) > MAX_KEY_BYTES:
            raise _refused("edit.key", f"at most {MAX_KEY_BYTES} bytes of UTF-8")
        changes["key"] = edit.key
    return changes


def _data(edit: Edit) -> tuple[bytes, str]:
    """Return new data as in a batch: a string is text and all else JSON, unless the content type
    is given."""
    if edit.data_base64 is not None:
        raise _refused("edit.data_base64", "either data or data_base64")
    raw = bytes(edit.data)
    is_string = raw[:1] == b'"'
    given = edit.content_type
    if given is not None and is_json(given):
        return raw, given
    if is_string:
        return msgspec.json.decode(raw, type=str).encode(), given or "text/plain"
    if given is not None:
        raise _refused("edit.data", f"a string where content_type is {given[:64]!r}")
    return raw, "application/json"


def _checked(attributes: dict[str, str | None]) -> dict[str, str | None]:
    for name, value in attributes.items():
        if not 0 < len(name.encode()) <= MAX_ATTRIBUTE_NAME_BYTES:
            raise _refused(
                "edit.attributes", f"a name has 1 to {MAX_ATTRIBUTE_NAME_BYTES} bytes of UTF-8"
            )
        if name.startswith(PREFIX):
            raise _refused("edit.attributes", f"names do not begin with {PREFIX}")
        if value is not None and len(value.encode()) > MAX_ATTRIBUTE_BYTES:
            raise _refused(
                "edit.attributes", f"a value has at most {MAX_ATTRIBUTE_BYTES} bytes of UTF-8"
            )
    return attributes


def _refused(field: str, detail: str) -> Problem:
    return invalid("The body does not fit.", [FieldError(field, detail)])
