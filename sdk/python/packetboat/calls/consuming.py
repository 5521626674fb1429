"""Pulling, and settling what was pulled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

import msgspec

from packetboat.calls.call import TIMEOUT_S, Call, part, put, send_json
from packetboat.models import ItemFailure, Message, Settled
from packetboat.transport import Request

Ids = str | Message | Iterable[str | Message]


def pull(
    subscription: str, max_messages: int, wait_seconds: float, max_bytes: int | None
) -> Call[list[Message]]:
    query: dict[str, Any] = {"max_messages": max_messages, "wait_seconds": wait_seconds}
    put(query, max_bytes=max_bytes)
    path = f"/subscriptions/{part(subscription)}/messages?{urlencode(query)}"
    request = Request("GET", path, timeout_s=TIMEOUT_S + wait_seconds)
    return Call(request, lambda body: _pulled.decode(body).messages)


def ack(subscription: str, ids: Ids, by_message_id: bool) -> Call[Settled]:
    return _settle(subscription, "ack", ids, by_message_id, {})


def nack(
    subscription: str,
    ids: Ids,
    by_message_id: bool,
    delay_seconds: float | None,
    reason: str | None,
) -> Call[Settled]:
    more: dict[str, Any] = {}
    put(more, delay_seconds=delay_seconds, reason=reason)
    return _settle(subscription, "nack", ids, by_message_id, more)


def release(subscription: str, ids: Ids, by_message_id: bool) -> Call[Settled]:
    return _settle(subscription, "release", ids, by_message_id, {})


def modify_ack_deadline(
    subscription: str, ids: Ids, by_message_id: bool, deadline_seconds: float
) -> Call[Settled]:
    more = {"deadline_seconds": deadline_seconds}
    return _settle(subscription, "modify_ack_deadline", ids, by_message_id, more)


class _Pulled(msgspec.Struct):
    messages: list[Message]


class _SettledBody(msgspec.Struct):
    acked: int = 0
    done: int = 0
    results: tuple[ItemFailure, ...] = ()


_pulled = msgspec.json.Decoder(_Pulled)
_settled = msgspec.json.Decoder(_SettledBody)


def _settle(
    subscription: str, verb: str, ids: Ids, by_message_id: bool, more: dict[str, Any]
) -> Call[Settled]:
    member = "message_id" if by_message_id else "ack_id"
    given = [ids] if isinstance(ids, str | Message) else list(ids)
    texts = [getattr(each, member) if isinstance(each, Message) else each for each in given]
    body = {member + "s": texts} | more
    request = send_json("POST", f"/subscriptions/{part(subscription)}/{verb}", body)
    return Call(request, _read_settled, safe=True)


def _read_settled(body: bytes) -> Settled:
    answer = _settled.decode(body)
    return Settled(answer.acked + answer.done, answer.results)
