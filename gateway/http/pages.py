"""The pages that are served besides the API: health and the API's own description."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

import openapi
from edge.asgi import PROBLEM_JSON, Handler, Receive, Scope, Send
from edge.problem import Problem
from edge.slices import PassBudget
from gateway.http import viewer
from gateway.http.router import method_not_allowed
from gateway.middleware.errors import internal
from gateway.readiness import Readiness
from openapi.server import OPERATIONS, Ready, Status

Page = Callable[[Request], Awaitable[Response]]
PAGES_S = 0.00025
"""Processor time that pages may take of a pass of the event loop: anybody may ask for thousands at
once, of half a megabyte each. The description of the API takes more than that, so a pass has one.
"""
HEALTH = frozenset((OPERATIONS["healthz"].path, OPERATIONS["readyz"].path))
_ALIVE = msgspec.json.encode(Status("ok"))
VIEWER_HEADERS = {
    "content-security-policy": viewer.CONTENT_SECURITY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


class Pages:
    """Every page here is public by intent: it tells nothing about any tenant."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._turns = PassBudget(PAGES_S)
        self._yaml = openapi.text().encode()
        self._json = msgspec.json.encode(openapi.document())

    def public(self) -> dict[str, Page]:
        """Return the pages by the ids of their operations."""
        return {
            "root": self.root,
            "healthz": self.healthz,
            "readyz": self.readyz,
            "openapiYaml": self.openapi_yaml,
            "openapiJson": self.openapi_json,
            "docs": self.docs,
            "docsAsset": self.docs_asset,
        }

    def application(self) -> Handler:
        pages = self.public().items()
        routes = [Route(OPERATIONS[id].path, page, methods=["GET"]) for id, page in pages]
        application = Starlette(
            routes=routes,
            exception_handlers={HTTPException: _http_problem, Exception: _defect},
        )

        async def in_turn(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] in HEALTH:
                await application(scope, receive, send)
                return
            await self._turns.run(application(scope, receive, send))

        return in_turn

    async def root(self, request: Request) -> Response:
        return RedirectResponse("/docs", status_code=302)

    async def healthz(self, request: Request) -> Response:
        return Response(_ALIVE, media_type="application/json")

    async def readyz(self, request: Request) -> Response:
        reasons = self._readiness.reasons()
        if not reasons:
            ready = Ready("ready", self._readiness.warnings() or msgspec.UNSET)
            return Response(msgspec.json.encode(ready), media_type="application/json")
        detail = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        problem = Problem.of("not-ready", detail, retry_after_s=1.0, extra={"reasons": reasons})
        return _response(problem)

    async def openapi_yaml(self, request: Request) -> Response:
        return Response(self._yaml, media_type="application/yaml")

    async def openapi_json(self, request: Request) -> Response:
        return Response(self._json, media_type="application/json")

    async def docs(self, request: Request) -> Response:
        return Response(viewer.page(), 200, VIEWER_HEADERS, media_type="text/html")

    async def docs_asset(self, request: Request) -> Response:
        name = request.path_params["asset"]
        if name not in viewer.ASSETS:
            raise HTTPException(404)
        headers = VIEWER_HEADERS | {"cache-control": "public, max-age=3600"}
        return Response(viewer.asset(name), 200, headers, media_type=viewer.ASSETS[name])


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "GET").split(", ")
        return _response(method_not_allowed(request.method, request.url.path, sorted(allowed)))
    return _response(Problem.of("route-not-found", f"There is nothing at {request.url.path}."))


async def _defect(request: Request, error: Exception) -> Response:
    return _response(internal())


def _response(problem: Problem) -> Response:
    headers = dict(problem.headers)
    if problem.retry_after_s is not None:
        headers["retry-after"] = str(int(problem.retry_after_s))
    return Response(
        problem.to_json(), problem.status, headers, media_type=PROBLEM_JSON.decode("ascii")
    )
