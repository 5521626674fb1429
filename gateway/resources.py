"""Create, get, list, put, change and delete: one implementation for all things that have a name.

    decode the body → require the permission on a new name → the area's rules and its repository
        → 200 or 201 with the thing, its ETag and its Location, or 204, or a problem

An area makes a `Resource` of its kind. For each row of the contract's table it names the function
that knows the area's own rules. The row says the rest: the status and the headers of the answer,
the class of a page, and whether the caller sees all names or only those that it may read.

The audit and the turns of writers stand around all routes that change something
(`tenancy/auditor.py`, `write_limit.py`), so no handler knows of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UNSET, UnsetType

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    header,
    path_param,
    respond,
    tenant_of,
)
from edge.caller import Caller
from edge.parameters import Query
from edge.problem import Problem, not_found
from edge.slices import Slices
from gateway.http.decoding import etag, if_match, read_json
from gateway.names import name_errors
from metadata.errors import Conflict, NotFound
from metadata.paging import Named, token_after
from metadata.types import Page
from openapi.common import LOCATION, MAX_PAGE_SIZE, PAGE_SIZE
from openapi.contract import Operation

MOST_RACES = 8
"""Tries of a PUT, which fails when others create and delete the same name at that moment."""


class NamedBody(Protocol):
    """A body that names the thing that it creates."""

    @property
    def name(self) -> str | UnsetType: ...


V = TypeVar("V", bound=Named)
B = TypeVar("B")
N = TypeVar("N", bound=NamedBody)


class Shown(NamedTuple):
    """A thing as an answer shows it. Without a version, the answer has no ETag. An answer with a
    secret is kept by no cache."""

    view: object
    name: str
    version: int | None = None
    secret: bool = False


class Call:
    """A request: its tenant, its caller, the name of the thing, and what it asks for besides its
    body."""

    __slots__ = ("name", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive, name: str) -> None:
        self.scope = scope
        self.receive = receive
        self.name = name

    @property
    def tenant_id(self) -> bytes:
        return tenant_of(self.scope)

    @property
    def caller(self) -> Caller:
        return caller_of(self.scope)

    @property
    def if_version(self) -> int | None:
        """The version that If-Match names, if it names one."""
        return if_match(header(self.scope, b"if-match"))

    @property
    def force(self) -> bool:
        return Query(self.scope).flag("force")

    @property
    def query(self) -> Query:
        return Query(self.scope)

    def path(self, parameter: str) -> str:
        """Return a parameter of the path."""
        return path_param(self.scope, parameter)


class ReadPage(Protocol[V]):
    """Reads a page by name, as every repository of named things does. Raises BadPageToken."""

    async def __call__(
        self, tenant_id: bytes, *, page_size: int, page_token: str | None
    ) -> Page[V]: ...


Carry = Callable[[Call], Awaitable[V | Shown]]
CarryBody = Callable[[Call, B], Awaitable[V | Shown]]


class Resource(Generic[V]):
    """Makes the routes of things of one kind.

    The functions of an area return the thing, or a `Shown` where an answer tells more than the
    thing, such as a new secret. They let Conflict and NotFound of a repository pass.
    """

    def __init__(
        self,
        kind: str,
        get: Operation,
        shown: Callable[[V], Shown],
    ) -> None:
        """Name things as `kind` in problems. The path of `get` is where one is, and its parameter
        is its name."""
        self._kind = kind
        self._location, self._parameter = get.path[:-1].split("{")
        self._shown = shown

    def creates(
        self,
        operation: Operation,
        body: type[N],
        create: CarryBody[N, V],
        taken: Callable[[str], Problem],
    ) -> Route:
        """Answer 201. `create` raises Conflict if the name is taken; `taken` returns its problem,
        which is a 409."""
        names = f"{self._kind}:?"

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            asked = await read_json(scope, receive, body)
            call = Call(scope, receive, "" if asked.name is UNSET else asked.name)
            if operation.resource == names:
                await call.caller.require(operation.permission, self._kind, call.name)
            try:
                made = await create(call, asked)
            except Conflict as error:
                raise taken(call.name) from error
            await self._respond(send, operation, 201, made)

        return Route(operation, handle)

    def puts(
        self,
        operation: Operation,
        body: type[B],
        update: CarryBody[B, V],
        create: CarryBody[B, V],
    ) -> Route:
        """Answer 200 for a thing that is now as the body says, and 201 for one that was not there.

        Two that put the same name at the same moment are both answered. Raise a 412 Problem if
        there is no such thing, and a version was named. `create` raises Conflict if another made
        it first.
        """

        async def either(call: Call, asked: B) -> tuple[V | Shown, bool]:
            races = 0
            while True:
                try:
                    async with self._versioned():
                        return await update(call, asked), False
                except NotFound as error:
                    if error.kind != self._kind:
                        raise
                    if call.if_version is not None:
                        raise precondition_failed(self._kind) from error
                try:
                    return await create(call, asked), True
                except Conflict:
                    races += 1
                    if races == MOST_RACES:
                        raise

        return self.upserts(operation, body, either)

    def upserts(
        self,
        operation: Operation,
        body: type[B],
        upsert: Callable[[Call, B], Awaitable[tuple[V | Shown, bool]]],
    ) -> Route:
        """Answer as `puts`, for a repository that does both at once. `upsert` returns the thing,
        and whether it is new, or raises the 412 Problem."""

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            asked = await read_json(scope, receive, body)
            call = Call(scope, receive, path_param(scope, self._parameter))
            found, made = await upsert(call, asked)
            await self._respond(send, operation, 201 if made else 200, found)

        return Route(operation, handle)

    def changes(self, operation: Operation, body: type[B], change: CarryBody[B, V]) -> Route:
        """Answer with the changed thing. Raise a 412 Problem if it has another version than the one
        that was named: `change` raises Conflict."""

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            asked = await read_json(scope, receive, body)
            call = self._call(scope, receive)
            async with self._versioned():
                changed = await change(call, asked)
            await self._respond(send, operation, operation.answers[0].status, changed)

        return Route(operation, handle)

    def gets(self, operation: Operation, get: Callable[[bytes, str], Awaitable[V]]) -> Route:
        """Answer with the thing of a tenant that has the name."""
        return self.shows(operation, lambda call: get(call.tenant_id, call.name))

    def shows(self, operation: Operation, carry: Carry[V]) -> Route:
        """Answer with a thing: as it is, or as an action without a body leaves it."""

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            async with self._versioned():
                found = await carry(self._call(scope, receive))
            await self._respond(send, operation, operation.answers[0].status, found)

        return Route(operation, handle)

    def lists(self, operation: Operation, read: ReadPage[V]) -> Route:
        """Answer with a page of all things of a tenant."""

        async def select(call: Call) -> ReadPage[V]:
            return read

        return self.lists_selected(operation, select)

    def lists_selected(
        self, operation: Operation, select: Callable[[Call], Awaitable[ReadPage[V]]]
    ) -> Route:
        """Answer with a page of the things that the request asks for: `select` looks at its query
        and its path."""
        page_kind = operation.answers[0].kind

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            call = Call(scope, receive, "")
            read_selected = await select(call)

            async def read(size: int, token: str | None) -> Page[V]:
                return await read_selected(call.tenant_id, page_size=size, page_token=token)

            if operation.resource == "*":
                query = call.query
                page = await read(query.integer(PAGE_SIZE), query.page_token())
            else:
                page = await visible_page(scope, self._kind, read)
            listing = page_kind([self._shown(each).view for each in page.items], page.next_token)
            await respond(send, 200, msgspec.json.encode(listing))

        return Route(operation, handle)

    def deletes(self, operation: Operation, delete: Callable[[Call], Awaitable[object]]) -> Route:
        """Answer 204. Raise a 412 Problem as `changes` does."""

        async def handle(scope: Scope, receive: Receive, send: Send) -> None:
            async with self._versioned():
                await delete(self._call(scope, receive))
            await respond_no_content(send)

        return Route(operation, handle)

    def _call(self, scope: Scope, receive: Receive) -> Call:
        """Return the call; raise a 404 Problem if nothing can have the name in the path."""
        name = path_param(scope, self._parameter)
        if name_errors(name):
            raise not_found(self._kind, name)
        return Call(scope, receive, name)

    @asynccontextmanager
    async def _versioned(self) -> AsyncIterator[None]:
        try:
            yield
        except Conflict as error:
            raise precondition_failed(self._kind) from error

    async def _respond(
        self, send: Send, operation: Operation, status: int, found: V | Shown
    ) -> None:
        shown = found if isinstance(found, Shown) else self._shown(found)
        headers = [] if shown.version is None else [etag(shown.version)]
        (answer,) = (each for each in operation.answers if each.status == status)
        if LOCATION in answer.headers:
            where = self._location + quote(shown.name, safe="")
            headers.append((b"location", where.encode("ascii")))
        if shown.secret:
            headers.append((b"cache-control", b"no-store"))
        await respond(send, status, msgspec.json.encode(shown.view), headers=headers)


async def visible_page(
    scope: Scope, kind: str, read: Callable[[int, str | None], Awaitable[Page[V]]]
) -> Page[V]:
    """Return the page of the query; `read` takes its size and the token of the page before.

    A caller that may read some names gets pages as full as another's, and tokens made of names that
    it may read. The others are not counted, named or hinted at.
    """
    query, caller = Query(scope), caller_of(scope)
    size = query.integer(PAGE_SIZE)
    token = query.page_token()
    if caller.may_all("read", kind):
        return await read(size, token)
    kept: list[V] = []
    slices = Slices()
    while True:
        page = await read(MAX_PAGE_SIZE, token)
        for item in page.items:
            if slices.over:
                await slices.rest()
            if await caller.allows("read", kind, item.name):
                if len(kept) == size:
                    return Page(tuple(kept), token_after(kept[-1].name))
                kept.append(item)
        token = page.next_token
        if token is None:
            return Page(tuple(kept), None)


def taken(kind: str, rule: str = "") -> Callable[[str], Problem]:
    """Return the 409 Problem of a name that is taken, by the name; `rule` says what a caller may
    not know of such names."""

    def problem(name: str) -> Problem:
        detail = there_is(kind, name, rule)
        return Problem.of(f"{kind}-exists", detail)

    return problem


def there_is(kind: str, name: str, rule: str = "") -> str:
    """Return the sentence about a name that is taken."""
    article = "an" if kind[0] in "aeiou" else "a"
    return f"There is {article} {kind} {name!r} already{rule and '; '}{rule}."


def precondition_failed(kind: str) -> Problem:
    return Problem.of(
        "precondition-failed",
        f"The {kind} has changed since the version named in If-Match.",
    )


async def respond_no_content(send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})
