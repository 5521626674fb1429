"""Strict reading of what dead letters are chosen by, and of how they are changed."""

from __future__ import annotations

from binascii import b2a_base64
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

import msgspec

from edge import expressions as filters
from edge.asgi import Scope
from edge.expressions import BadExpression
from edge.problem import FieldError, Problem, invalid, not_found
from metadata.subscriptions.dead_letters import LetterState
from metadata.subscriptions.redrives import RedriveSpec
from outbox.dead_letter import PREFIX
from outbox.letter_filter import VARIABLES, Filter, compile_filter
from subscribe_forwarder.api.bodies import decode
from subscribe_forwarder.reading.render import is_json

MAX_BODY_BYTES = 1024 * 1024
MAX_IDS = 1000
MAX_ATTRIBUTES = 100
MAX_NAME_BYTES = 256
MAX_VALUE_BYTES = 1024
MAX_KEY_BYTES = 1024
MAX_RATE = 10_000
TO_SUBSCRIPTION = "subscription"

Text = Annotated[str, msgspec.Meta(max_length=4096)]
Name = Annotated[str, msgspec.Meta(max_length=256)]
Ids = Annotated[list[Name], msgspec.Meta(min_length=1, max_length=MAX_IDS)]
Rate = Annotated[float, msgspec.Meta(gt=0, le=MAX_RATE)]
ContentType = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class EditBody(msgspec.Struct, forbid_unknown_fields=True):
    """What is changed of each; what is absent stays."""

    attributes: dict[str, str | None] = {}
    data: msgspec.Raw = msgspec.Raw()
    data_base64: bytes | None = None
    content_type: ContentType | None = None
    key: str | msgspec.UnsetType | None = msgspec.UNSET

    def changes(self) -> dict[str, Any]:
        """As `Redrive.edit` has it; 422 naming the field."""
        changes: dict[str, Any] = {}
        if self.attributes:
            changes["attributes"] = _checked(self.attributes)
        content_type = self.content_type
        if self.data:
            data, content_type = self._data()
            changes["data_base64"] = b2a_base64(data, newline=False).decode()
        elif self.data_base64 is not None:
            changes["data_base64"] = b2a_base64(self.data_base64, newline=False).decode()
        if content_type is not None:
            changes["content_type"] = content_type
        if self.key is not msgspec.UNSET:
            if self.key is not None and len(self.key.encode()) > MAX_KEY_BYTES:
                raise _refused("edit.key", f"at most {MAX_KEY_BYTES} bytes of UTF-8")
            changes["key"] = self.key
        return changes

    def _data(self) -> tuple[bytes, str]:
        """As in a batch: a string is text, and all else JSON, unless the content type is given."""
        if self.data_base64 is not None:
            raise _refused("edit.data_base64", "either data or data_base64")
        raw = bytes(self.data)
        is_string = raw[:1] == b'"'
        given = self.content_type
        if given is not None and is_json(given):
            return raw, given
        if is_string:
            return msgspec.json.decode(raw, type=str).encode(), given or "text/plain"
        if given is not None:
            raise _refused("edit.data", f"a string where content_type is {given[:64]!r}")
        return raw, "application/json"


class ChoiceBody(msgspec.Struct, forbid_unknown_fields=True):
    filter: Text | None = None
    ids: Ids | None = None

    def uids(self) -> list[bytes] | None:
        """422 for both forms, and for what is no id."""
        if self.ids is None:
            return None
        if self.filter is not None:
            raise _refused("ids", "either filter or ids")
        uids = [uid_of(text) for text in self.ids]
        if None in uids:
            raise _refused(f"ids[{uids.index(None)}]", "the id of a dead letter")
        return [uid for uid in uids if uid is not None]

    def chosen(self) -> Filter | None:
        return None if self.filter is None else compiled(self.filter, status=422)


class DiscardBody(ChoiceBody, forbid_unknown_fields=True):
    pass


class RedriveBody(ChoiceBody, forbid_unknown_fields=True):
    to: Name = TO_SUBSCRIPTION
    edit: EditBody | None = None
    rate: Rate | None = None
    dry_run: bool = False

    def spec(self) -> RedriveSpec:
        return RedriveSpec(
            filter=self.filter,
            uids=self.uids(),
            destination=None if self.to == TO_SUBSCRIPTION else self.to,
            edit={} if self.edit is None else self.edit.changes(),
            rate=self.rate,
        )


class PageQuery(msgspec.Struct, frozen=True):
    """What a listing is asked for."""

    page_size: int
    page_token: str | None
    state: LetterState
    filter: Filter | None


_DISCARD = msgspec.json.Decoder(DiscardBody)
_REDRIVE = msgspec.json.Decoder(RedriveBody)
_STATES: dict[str, LetterState] = {
    "open": "open",
    "redriven": "redriven",
    "discarded": "discarded",
}


def discard_of(body: bytes) -> DiscardBody:
    """422 unless it has exactly one of the two forms."""
    given = decode(body, _DISCARD)
    if given.filter is None and given.ids is None:
        raise _refused("filter", "give filter or ids; the filter true takes all")
    return given


def redrive_of(body: bytes) -> RedriveBody:
    return decode(body if body.strip() else b"{}", _REDRIVE)


def page_of(scope: Scope) -> PageQuery:
    """400 naming the parameter that does not fit; the last of a repeated one counts."""
    raw = scope["query_string"].decode("ascii", "replace")
    values = parse_qs(raw, keep_blank_values=True, errors="replace")
    given = {name: texts[-1] for name, texts in values.items()}
    size = given.get("page_size", "100")
    if not (size.isascii() and size.isdigit() and len(size) <= 4 and 1 <= int(size) <= 1000):
        raise _refused("page_size", "an integer from 1 to 1000", status=400)
    state = _STATES.get(given.get("state", "open"))
    if state is None:
        raise _refused("state", f"one of {', '.join(_STATES)}", status=400)
    text = given.get("filter")
    return PageQuery(
        int(size),
        given.get("page_token") or None,
        state,
        compiled(text, status=400) if text is not None else None,
    )


def compiled(text: str, *, status: Literal[400, 422]) -> Filter:
    try:
        filters.compile_filter(text, VARIABLES)
        return compile_filter(text)
    except BadExpression as error:
        errors = [error.field_error("filter")]
        raise invalid("The filter does not fit.", errors, status=status) from error


def uid_of(text: str) -> bytes | None:
    """Of an id as `uid.hex()` makes it."""
    try:
        uid = bytes.fromhex(text)
    except ValueError:
        return None
    return uid if len(uid) == 16 and uid.hex() == text else None


def uid_in_path(kind: str, text: str) -> bytes:
    """404 for what is no id."""
    uid = uid_of(text)
    if uid is None:
        raise not_found(kind, text)
    return uid


def _checked(attributes: dict[str, str | None]) -> dict[str, str | None]:
    if len(attributes) > MAX_ATTRIBUTES:
        raise _refused("edit.attributes", f"at most {MAX_ATTRIBUTES}")
    for name, value in attributes.items():
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise _refused("edit.attributes", f"a name has 1 to {MAX_NAME_BYTES} bytes of UTF-8")
        if name.startswith(PREFIX):
            raise _refused("edit.attributes", f"names do not begin with {PREFIX}")
        if value is not None and len(value.encode()) > MAX_VALUE_BYTES:
            raise _refused(
                "edit.attributes", f"a value has at most {MAX_VALUE_BYTES} bytes of UTF-8"
            )
    return attributes


def _refused(field: str, detail: str, *, status: int = 422) -> Problem:
    what = "The request" if status == 400 else "The body"
    return invalid(f"{what} does not fit.", [FieldError(field, detail)], status=status)
