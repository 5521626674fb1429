"""An operation of the API as a value: the request to send, and how to read the answer.

Nothing here does I/O, so the synchronous and the asynchronous client are the same client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from packetboat.errors import PacketboatError, Problem, ServerError, error_of
from packetboat.models import Page
from packetboat.transport import Request, Response

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
TIMEOUT_S = 30.0


class Call(NamedTuple, Generic[T_co]):
    """`safe`: sending it twice does no harm; `idempotency_key`: what makes a publish safe."""

    request: Request
    read: Callable[[bytes], T_co]
    safe: bool = False
    idempotency_key: str | None = None
    tagged: bool = False
    """Whether the result has an `etag`, which comes in a header."""

    def result(self, response: Response) -> T_co:
        """Return the result, or raise the error that the response stands for."""
        if response.status < 300:
            try:
                result = self.read(response.body)
            except msgspec.MsgspecError as error:
                raise ServerError(response.status, f"unexpected body ({error})") from error
            return _with_tag(result, response) if self.tagged else result
        raise failure(response)


class StreamCall(NamedTuple):
    """An operation whose answer is read as it comes."""

    request: Request


def failure(response: Response) -> PacketboatError:
    """Return the error of a response that is no success."""
    try:
        problem = msgspec.json.decode(response.body, type=Problem)
        more: dict[str, Any] = msgspec.json.decode(response.body)
        known = Problem.__struct_encode_fields__
        members = {name: value for name, value in more.items() if name not in known}
        problem = msgspec.structs.replace(problem, members=members)
        if "error" in members:
            problem = _of_oauth(problem)
    except msgspec.MsgspecError:
        text = response.body[:200].decode("utf-8", "replace")
        problem = Problem(title=text or "no problem description")
    problem = msgspec.structs.replace(problem, status=response.status)
    after = response.headers.get("retry-after", "")
    return error_of(problem, float(after) if after.isdigit() else None)


def _of_oauth(problem: Problem) -> Problem:
    """Read the problem of a token endpoint, which has another form (RFC 6749, 5.2)."""
    error = str(problem.members["error"])
    detail = str(problem.members.get("error_description", ""))
    return msgspec.structs.replace(problem, type=error, detail=detail)


def _with_tag(result: T, response: Response) -> T:
    etag = response.headers.get("etag")
    tagged: T = msgspec.structs.replace(result, etag=etag)  # type: ignore[type-var]
    return tagged


def moment(moment: datetime | None) -> str | None:
    """Return a time as RFC 3339 has it. Raise ValueError where it has no zone."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError(f"{moment} must have a time zone")
    return moment.isoformat()


def page(
    path: str,
    member: str,
    kind: type[T],
    page_size: int,
    page_token: str | None,
    query: Mapping[str, Any] | None = None,
) -> Call[Page[T]]:
    """Return the call for one page of a path; `member` of the answer has the items."""

    def read(body: bytes) -> Page[T]:
        raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        items = msgspec.json.decode(raw[member], type=tuple[kind, ...])  # type: ignore[valid-type]
        return Page(items, msgspec.json.decode(raw["next_page_token"], type=str | None))

    asked = {**(query or {}), "page_size": page_size, "page_token": page_token}
    return Call(get(path, asked), read, safe=True)


def fetch(
    path: str, kind: type[T], query: Mapping[str, Any] | None = None, *, tagged: bool = False
) -> Call[T]:
    """Return the call that gets the object at a path."""
    return Call(get(path, query), reader(kind), safe=True, tagged=tagged)


def change(
    method: str,
    path: str,
    body: object,
    kind: type[T],
    *,
    safe: bool = False,
    if_match: str | None = None,
    tagged: bool = False,
) -> Call[T]:
    """Sends a body, if it is not None. With `if_match` it is done once at most: sent again it would
    be refused, whether or not it was done."""
    request = send_json(method, path, body, if_match)
    return Call(request, reader(kind), safe=safe and if_match is None, tagged=tagged)


def get(path: str, query: Mapping[str, Any] | None = None) -> Request:
    """Return a request whose query leaves out members that are None."""
    return Request("GET", with_query(path, query or {}), timeout_s=TIMEOUT_S)


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """Sequences are given member by member, times to a millisecond."""
    given = {name: _text(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return moment(value)
    return round(value, 3) if isinstance(value, float) else value


def send_json(method: str, path: str, body: object, if_match: str | None = None) -> Request:
    """None is no body."""
    headers: dict[str, str] = {}
    put(headers, **{"If-Match": if_match})
    if body is None:
        return Request(method, path, headers, timeout_s=TIMEOUT_S)
    headers["Content-Type"] = "application/json"
    return Request(method, path, headers, msgspec.json.encode(body), TIMEOUT_S)


def delete(path: str, force: bool = False, if_match: str | None = None) -> Call[None]:
    """Not safe: sent again it would say that there is no such thing."""
    target = with_query(path, {"force": True if force else None})
    return Call(send_json("DELETE", target, None, if_match), nothing)


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Decoders are made when an answer is there: making a call stays cheap."""

    def read(body: bytes) -> T:
        return msgspec.json.decode(body, type=kind)

    return read


def member(name: str, kind: type[T]) -> Callable[[bytes], T]:
    """Return a reader of one member of an answer."""

    def read(body: bytes) -> T:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        if name not in members:
            raise msgspec.ValidationError(f"no `{name}`")
        return msgspec.json.decode(members[name], type=kind)

    return read


def member_or_none(name: str, kind: type[T]) -> Callable[[bytes], T | None]:
    """Return a reader of one member of an answer, which may be null."""
    nullable: Any = kind | None
    return member(name, nullable)


def nothing(body: bytes) -> None:
    """Read an answer that has no body."""


def text(body: bytes) -> str:
    """Read an answer that is text."""
    return body.decode("utf-8", "replace")


def waiting(call: Call[T], seconds: float) -> Call[T]:
    """Return the call with as many more seconds for its answer."""
    return call._replace(request=call.request._replace(timeout_s=TIMEOUT_S + seconds))


def put(target: dict[str, Any], **members: Any) -> None:
    """Add the members that are not None."""
    target.update({name: value for name, value in members.items() if value is not None})


def part(name: str) -> str:
    """Return a text as a part of a path."""
    return quote(name, safe="")


def path_of(subscription: str) -> str:
    """Return the path of a subscription."""
    return f"/subscriptions/{part(subscription)}"


def numbers(values: Sequence[int] | None) -> str | None:
    """Return numbers with commas between them."""
    return None if values is None else ",".join(str(value) for value in values)


def long_poll_s(most_s: float, timeout_s: float | None) -> float:
    """Return the seconds the server may wait, so that it answers within the caller's timeout."""
    return most_s if timeout_s is None else min(most_s, timeout_s / 2)
