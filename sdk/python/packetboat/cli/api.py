"""The HTTP API as JSON goes over it: what the command prints is what the server answered, also
members that this version does not know. Tries, failover and credentials are those of the SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from packetboat.calls import Call
from packetboat.sync.sender import Sender
from packetboat.transport import Request

PAGE_SIZE = 200
TIMEOUT_S = 30.0
Json = dict[str, Any]


def path(*parts: str, verb: str = "") -> str:
    """`path("topics", name, verb="grow")` is `/topics/NAME:grow`."""
    joined = "".join("/" + quote(part, safe="") for part in parts)
    return f"{joined}:{verb}" if verb else joined


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """Return a path with the query parameters that are not None."""
    pairs = [(name, _query_value(value)) for name, value in query.items() if value is not None]
    return f"{path}?{urlencode(pairs)}" if pairs else path


class Api:
    """`get` and `put` are sent again where the answer was lost; `post` only where it is `safe`."""

    def __init__(self, sender: Sender, deadline_s: float | None = None) -> None:
        self.sender = sender
        self._deadline_s = deadline_s

    def get(self, path: str, *, wait_s: float = 0.0, **query: Any) -> Any:
        return self._send("GET", with_query(path, query), None, safe=True, wait_s=wait_s)

    def text(self, path: str) -> str:
        """Return an answer that is no JSON as text."""
        request = Request("GET", path, {}, b"", TIMEOUT_S)
        call = Call(request, lambda body: body.decode("utf-8", "replace"), safe=True)
        return self.sender.send(call, timeout_s=self._deadline_s)

    def post(self, path: str, body: object = None, *, safe: bool = False, wait_s: float = 0) -> Any:
        return self._send("POST", path, body, safe=safe, wait_s=wait_s)

    def put(self, path: str, body: object, **query: Any) -> Any:
        return self._send("PUT", with_query(path, query), body, safe=True)

    def patch(self, path: str, body: object) -> Any:
        return self._send("PATCH", path, body, safe=True)

    def delete(self, path: str, **query: Any) -> Any:
        return self._send("DELETE", with_query(path, query), None, safe=False)

    def repeat(self, request: Request) -> Any:
        """One that is made already, and may be sent again where the answer was lost."""
        return self.sender.send(Call(request, _read, safe=True), timeout_s=self._deadline_s)

    def pages(
        self, path: str, member: str, *, limit: int | None = None, **query: Any
    ) -> Iterator[Json]:
        """Yield the items of a listing; each page is requested when it is needed."""
        left, token = limit, None
        while left is None or left > 0:
            size = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
            page = self.get(path, page_size=size, page_token=token, **query)
            items = page[member] if left is None else page[member][:left]
            yield from items
            left = None if left is None else left - len(items)
            token = page.get("next_page_token")
            if token is None:
                return

    def _send(self, method: str, path: str, body: object, *, safe: bool, wait_s: float = 0) -> Any:
        headers = {} if body is None else {"Content-Type": "application/json"}
        raw = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, headers, raw, TIMEOUT_S + wait_s)
        return self.sender.send(Call(request, _read, safe), timeout_s=self._deadline_s)


def _read(body: bytes) -> Any:
    import msgspec

    return msgspec.json.decode(body) if body else None


def _query_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)
