"""An operation of the API as a value: the request to send, and how to read the answer.

Nothing here does I/O, so the synchronous and the asynchronous client are the same client.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from packetboat.errors import PacketboatError, Problem, ServerError, error_of
from packetboat.models import Page
from packetboat.transport import Request, Response

T = TypeVar("T")
TIMEOUT_S = 30.0


class Call(NamedTuple, Generic[T]):
    """`safe`: sending it twice does no harm; `idempotency_key`: what makes a publish safe."""

    request: Request
    read: Callable[[bytes], T]
    safe: bool = False
    idempotency_key: str | None = None

    def result(self, response: Response) -> T:
        """The result, or the error that the response stands for."""
        if response.status < 300:
            try:
                return self.read(response.body)
            except msgspec.MsgspecError as error:
                raise ServerError(response.status, f"unexpected body ({error})") from error
        raise failure(response)


class StreamCall(NamedTuple):
    """Its answer is read as it comes."""

    request: Request


def failure(response: Response) -> PacketboatError:
    """Of a response that is no success."""
    try:
        problem = msgspec.json.decode(response.body, type=Problem)
    except msgspec.MsgspecError:
        text = response.body[:200].decode("utf-8", "replace")
        problem = Problem(title=text or "no problem description")
    problem = msgspec.structs.replace(problem, status=response.status)
    after = response.headers.get("retry-after", "")
    return error_of(problem, float(after) if after.isdigit() else None)


def moment(moment: datetime | None) -> str | None:
    """RFC 3339; one without a zone is not guessed at."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError("deliver_at must have a time zone")
    return moment.isoformat()


def page(
    path: str, member: str, kind: type[Any], page_size: int, page_token: str | None
) -> Call[Page[Any]]:
    query: dict[str, Any] = {"page_size": page_size}
    put(query, page_token=page_token)

    def read(body: bytes) -> Page[Any]:
        raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(raw[member], type=tuple[kind, ...])  # type: ignore[valid-type]
        return Page(items, msgspec.json.decode(raw["next_page_token"], type=str | None))

    return Call(get(f"{path}?{urlencode(query)}"), read, safe=True)


def get(path: str) -> Request:
    return Request("GET", path, timeout_s=TIMEOUT_S)


def send_json(method: str, path: str, body: object) -> Request:
    headers = {"Content-Type": "application/json"}
    return Request(method, path, headers, msgspec.json.encode(body), TIMEOUT_S)


def reader(kind: type[T]) -> Callable[[bytes], T]:
    return msgspec.json.Decoder(kind).decode


def nothing(body: bytes) -> None:
    return None


def put(target: dict[str, Any], **members: Any) -> None:
    """Those that are given."""
    target.update({name: value for name, value in members.items() if value is not None})


def part(name: str) -> str:
    return quote(name, safe="")


def delete(path: str, force: bool) -> Call[None]:
    path = f"{path}?force=true" if force else path
    return Call(Request("DELETE", path, timeout_s=TIMEOUT_S), nothing)
