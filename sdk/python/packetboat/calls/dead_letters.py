# Generated from openapi/: `make generate`. Do not edit.
"""Calls of dead letters, parked keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from packetboat.calls.bodies import edited
from packetboat.calls.call import (
    Call,
    change,
    fetch,
    get,
    member,
    page,
    part,
    put,
    send_json,
)
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


def list_dead_letters(
    subscription: str,
    filter: str | None,
    state: Literal["open", "redriven", "discarded"] | None,
    page_size: int,
    page_token: str | None,
) -> Call[DeadLetterPage]:
    return fetch(
        f"/subscriptions/{part(subscription)}/dead_letters",
        DeadLetterPage,
        {"filter": filter, "state": state, "page_size": page_size, "page_token": page_token},
    )


def get_dead_letter(subscription: str, letter: str) -> Call[DeadLetterWithMessage]:
    return fetch(
        f"/subscriptions/{part(subscription)}/dead_letters/{part(letter)}", DeadLetterWithMessage
    )


def discard_dead_letters(
    subscription: str, filter: str | None, ids: Sequence[str] | None
) -> Call[Discarded]:
    body: dict[str, Any] = {}
    put(body, filter=filter, ids=ids)
    return change(
        "POST",
        f"/subscriptions/{part(subscription)}/dead_letters:discard",
        body,
        Discarded,
        safe=ids is not None,
    )


def redrive_dead_letters(
    subscription: str,
    filter: str | None,
    ids: Sequence[str] | None,
    to: str | None,
    edit: Edit | None,
    rate: float | None,
) -> Call[Redrive]:
    body: dict[str, Any] = {}
    put(body, filter=filter, ids=ids, to=to, edit=edited(edit), rate=rate)
    return change(
        "POST", f"/subscriptions/{part(subscription)}/dead_letters:redrive", body, Redrive
    )


def redrive_dry_run(
    subscription: str,
    filter: str | None,
    ids: Sequence[str] | None,
    to: str | None,
    edit: Edit | None,
) -> Call[DryRun]:
    body: dict[str, Any] = {"dry_run": True}
    put(body, filter=filter, ids=ids, to=to, edit=edited(edit))
    return change(
        "POST", f"/subscriptions/{part(subscription)}/dead_letters:redrive", body, DryRun, safe=True
    )


def list_redrives(subscription: str, page_size: int, page_token: str | None) -> Call[Page[Redrive]]:
    return page(
        f"/subscriptions/{part(subscription)}/redrives", "redrives", Redrive, page_size, page_token
    )


def get_redrive(subscription: str, redrive: str) -> Call[Redrive]:
    return fetch(f"/subscriptions/{part(subscription)}/redrives/{part(redrive)}", Redrive)


def cancel_redrive(subscription: str, redrive: str) -> Call[Redrive]:
    return change(
        "POST",
        f"/subscriptions/{part(subscription)}/redrives/{part(redrive)}:cancel",
        None,
        Redrive,
        safe=True,
    )


def list_parked_keys(subscription: str) -> Call[tuple[ParkedKey, ...]]:
    return Call(
        get(f"/subscriptions/{part(subscription)}/parked_keys"),
        member("parked_keys", tuple[ParkedKey, ...]),
        safe=True,
    )


def resume_parked_key(subscription: str, key: str) -> Call[int]:
    body: dict[str, Any] = {"key": key}
    return Call(
        send_json("POST", f"/subscriptions/{part(subscription)}/parked_keys:resume", body),
        member("done", int),
    )


def skip_parked_key(subscription: str, key: str, dead_letter: bool) -> Call[int]:
    body: dict[str, Any] = {"key": key, "dead_letter": dead_letter}
    return Call(
        send_json("POST", f"/subscriptions/{part(subscription)}/parked_keys:skip", body),
        member("done", int),
    )
