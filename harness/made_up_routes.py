"""Routes for tests, with rows of their own where the contract's table has none."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from edge.asgi import Handler, Route
from openapi.areas import OPERATIONS
from openapi.contract import Operation, Parameter

_BY_ROUTE = {each.route: each for each in OPERATIONS.values()}


def made_up(
    method: str,
    path: str,
    handler: Handler,
    permission: str,
    resource: str = "",
    *,
    head: bool = True,
    query: Iterable[str] = (),
) -> Route:
    """Return a route of that method and path. Where the contract has a row for it, the route has
    that row, but for the permission and the resource."""
    row = _BY_ROUTE.get(f"{method} {path}") or Operation(
        id=f"{method} {path}",
        route=f"{method} {path}",
        needs="",
        summary="A made-up operation",
        parameters=tuple(Parameter("", name, "query", "A made-up parameter.") for name in query),
        answers=(),
    )
    needs = f"{permission} {resource}".rstrip()
    return Route(msgspec.structs.replace(row, needs=needs, head=head), handler)
