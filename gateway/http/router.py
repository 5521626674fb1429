"""Finds the operation of a request by its path, with one dict lookup for each segment.

Templates look like `/topics/{topic}/messages:batch` or `/subscriptions/{name}:pull`. A position has
either literal segments or one parameter (with optional `:action` suffixes), so a path has at most
one match and no order of registration matters.
"""

from __future__ import annotations

from urllib.parse import unquote

from auth.permissions import KINDS, Permission
from edge.asgi import Handler, Route
from edge.caller import ANY, Caller, forbidden
from edge.problem import Problem
from openapi.contract import Operation

SOME = "?"
"""A route's resource that is some name, which the handler looks up."""


class Endpoint:
    """One registered operation; `template` names it in metrics and logs."""

    __slots__ = (
        "_kind",
        "_named_by",
        "_needs",
        "direct",
        "handler",
        "head",
        "method",
        "params",
        "permission",
        "query",
        "template",
    )

    def __init__(self, route: Route) -> None:
        self.query = frozenset(name.encode() for name in route.operation.query)
        self.head = route.operation.head and route.method == "GET"
        self.method = route.method
        self.template = route.path
        self.handler: Handler = route.handler
        self.direct = route.direct
        # Raises ValueError for a name that is no permission: such a route never serves.
        self.permission = Permission(route.permission)
        self.params = tuple(
            segment[1 : segment.index("}")]
            for segment in route.path.split("/")
            if segment.startswith("{")
        )
        self._needs = route.permission
        self._kind, self._named_by = self._resource(route.operation)

    def _resource(self, row: Operation) -> tuple[str, str]:
        """Return the kind, and the parameter that names it, `*` or `?`; raises ValueError."""
        if self.permission in (Permission.PUBLIC, Permission.SELF):
            if row.resource:
                raise ValueError(f"{row.route} is {row.permission} and names a resource")
            return "", ""
        if row.resource == ANY:
            return ANY, ANY
        kind, colon, named_by = row.resource.partition(":")
        if not colon or kind not in KINDS or named_by not in (ANY, SOME, *self.params):
            raise ValueError(f"{row.route} needs a resource: {row.resource!r} is none")
        return kind, named_by

    @property
    def leaves_names(self) -> bool:
        """Whether the handler looks up which names the caller may see."""
        return self._named_by == SOME

    async def learn(self, caller: Caller, params: dict[str, str]) -> None:
        """Look at the name in the path, so that `check` knows it; for a caller that is `slow`."""
        if self._named_by not in ("", ANY, SOME):
            await caller.learn(self._needs, self._kind, params[self._named_by])

    def check(self, caller: Caller, params: dict[str, str]) -> None:
        """Raise a 403 Problem unless the caller has the permission on the named resource."""
        named_by = self._named_by
        if not named_by:
            return  # its own identity
        if named_by == ANY:
            if not caller.may_all(self._needs, self._kind):
                raise forbidden(self._needs, self._kind)
        elif named_by == SOME:
            if not caller.may_some(self._needs, self._kind):
                raise forbidden(self._needs, "", "")
        else:
            name = params[named_by]
            if not caller.may(self._needs, self._kind, name):
                raise forbidden(self._needs, self._kind, name)


class _Node:
    __slots__ = ("actions", "endpoints", "literals", "parameter")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.actions: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.endpoints: dict[str, Endpoint] = {}

    def grow(self, segment: str) -> _Node:
        if not segment.startswith("{"):
            if self.parameter is not None or self.actions:
                raise ValueError(f"{segment!r} stands beside a parameter")
            return self.literals.setdefault(segment, _Node())
        if self.literals:
            raise ValueError(f"{segment!r} stands beside literal segments")
        _, _, suffix = segment.partition("}")
        if suffix:
            return self.actions.setdefault(suffix.removeprefix(":"), _Node())
        if self.parameter is None:
            self.parameter = _Node()
        return self.parameter


class Router:
    """All data- and control-plane routes of a process."""

    def __init__(self) -> None:
        self._root = _Node()
        self.endpoints: list[Endpoint] = []

    def add(self, route: Route) -> None:
        """Raises ValueError for a second route of the same method and shape."""
        endpoint = Endpoint(route)
        node = self._root
        for segment in route.path.split("/")[1:]:
            node = node.grow(segment)
        if endpoint.method in node.endpoints:
            raise ValueError(f"{route.operation.route} is registered twice")
        node.endpoints[endpoint.method] = endpoint
        self.endpoints.append(endpoint)

    def match(self, method: str, path: str) -> tuple[Endpoint, dict[str, str]] | None:
        """Return the endpoint and its path parameters, or None for an unknown path.

        Raises a 405 Problem for a method that the path does not have. HEAD means the GET of the
        same path, where that may be answered without its body.
        """
        node = self._root
        values = []
        for segment in path.split("/")[1:]:
            child = node.literals.get(segment)
            if child is None:
                if not segment:
                    return None
                name, colon, action = segment.rpartition(":")
                if colon:
                    child, segment = node.actions.get(action), name
                else:
                    child = node.parameter
                if child is None or not segment:
                    return None
                if "%" in segment:
                    decoded = _decode(segment)
                    if decoded is None:
                        return None
                    segment = decoded
                values.append(segment)
            node = child
        endpoint = node.endpoints.get(method)
        if endpoint is not None:
            return endpoint, dict(zip(endpoint.params, values, strict=True))
        if not node.endpoints:
            return None
        get = node.endpoints.get("GET")
        if get is None or not get.head:
            raise method_not_allowed(method, path, sorted(node.endpoints))
        if method != "HEAD":
            raise method_not_allowed(method, path, sorted((*node.endpoints, "HEAD")))
        return get, dict(zip(get.params, values, strict=True))


def _decode(segment: str) -> str | None:
    """Return the decoded segment; None if it can name nothing (control characters, invalid
    UTF-8).
    """
    try:
        text = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if any(char < " " or char == "\x7f" for char in text) else text


def method_not_allowed(method: str, path: str, allowed: list[str]) -> Problem:
    return Problem.of(
        "method-not-allowed",
        f"{method} is not an operation of {path}; it has {', '.join(allowed)}.",
        headers={"Allow": ", ".join(allowed)},
    )
