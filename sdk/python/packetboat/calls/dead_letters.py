"""Dead letters, their redrives, and keys that wait aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from packetboat.calls.call import Call, change, fetch, get, page, part, put, reader, send_json
from packetboat.calls.content import content_members
from packetboat.calls.subscriptions import path_of
from packetboat.models import (
    DeadLetterPage,
    DeadLetterWithMessage,
    Discarded,
    DryRun,
    Edit,
    Page,
    ParkedKey,
    Redrive,
)


class _ParkedKeys(msgspec.Struct):
    parked_keys: tuple[ParkedKey, ...]


class _Done(msgspec.Struct):
    done: int


def list_dead_letters(
    subscription: str,
    state: str | None,
    filter: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[DeadLetterPage]:
    query = {"state": state, "filter": filter, "page_size": page_size, "page_token": page_token}
    return fetch(f"{path_of(subscription)}/dead_letters", DeadLetterPage, query)


def get_dead_letter(subscription: str, letter: str) -> Call[DeadLetterWithMessage]:
    return fetch(f"{path_of(subscription)}/dead_letters/{part(letter)}", DeadLetterWithMessage)


def discard_dead_letters(
    subscription: str, ids: Sequence[str] | None, filter: str | None
) -> Call[Discarded]:
    """By a filter it is not safe: what became a dead letter meanwhile would go too."""
    body: dict[str, Any] = {}
    put(body, ids=ids, filter=filter)
    path = f"{path_of(subscription)}/dead_letters:discard"
    return change("POST", path, body, Discarded, safe=ids is not None)


def redrive_dead_letters(
    subscription: str,
    ids: Sequence[str] | None,
    filter: str | None,
    to: str | None,
    edit: Edit | None,
    rate: float | None,
) -> Call[Redrive]:
    body = _redrive(ids, filter, to, edit, rate)
    return change("POST", f"{path_of(subscription)}/dead_letters:redrive", body, Redrive)


def redrive_dry_run(
    subscription: str,
    ids: Sequence[str] | None,
    filter: str | None,
    to: str | None,
    edit: Edit | None,
) -> Call[DryRun]:
    body = _redrive(ids, filter, to, edit, None) | {"dry_run": True}
    return change("POST", f"{path_of(subscription)}/dead_letters:redrive", body, DryRun, safe=True)


def list_redrives(subscription: str, page_size: int, page_token: str | None) -> Call[Page[Redrive]]:
    return page(f"{path_of(subscription)}/redrives", "redrives", Redrive, page_size, page_token)


def get_redrive(subscription: str, redrive: str) -> Call[Redrive]:
    return fetch(_redrive_path(subscription, redrive), Redrive)


def cancel_redrive(subscription: str, redrive: str) -> Call[Redrive]:
    path = f"{_redrive_path(subscription, redrive)}:cancel"
    return change("POST", path, None, Redrive, safe=True)


def list_parked_keys(subscription: str) -> Call[tuple[ParkedKey, ...]]:
    read = reader(_ParkedKeys)
    request = get(f"{path_of(subscription)}/parked_keys")
    return Call(request, lambda body: read(body).parked_keys, safe=True)


def resume_parked_key(subscription: str, key: str) -> Call[int]:
    return _parked_key(subscription, "resume", {"key": key})


def skip_parked_key(subscription: str, key: str, dead_letter: bool) -> Call[int]:
    return _parked_key(subscription, "skip", {"key": key, "dead_letter": dead_letter})


def _parked_key(subscription: str, verb: str, body: dict[str, Any]) -> Call[int]:
    """Not safe: sent again it might be about the key's next message."""
    request = send_json("POST", f"{path_of(subscription)}/parked_keys:{verb}", body)
    read = reader(_Done)
    return Call(request, lambda raw: read(raw).done)


def _redrive(
    ids: Sequence[str] | None,
    filter: str | None,
    to: str | None,
    edit: Edit | None,
    rate: float | None,
) -> dict[str, Any]:
    body: dict[str, Any] = {}
    put(body, ids=ids, filter=filter, to=to, rate=rate)
    if edit is not None:
        body["edit"] = _edit(edit)
    return body


def _edit(edit: Edit) -> dict[str, Any]:
    members: dict[str, Any] = {}
    put(members, attributes=edit.attributes, content_type=edit.content_type)
    if edit.data is not msgspec.UNSET:
        members |= content_members(edit.data, edit.content_type)
    if edit.key is not msgspec.UNSET:
        members["key"] = edit.key
    return members


def _redrive_path(subscription: str, redrive: str) -> str:
    return f"{path_of(subscription)}/redrives/{part(redrive)}"
