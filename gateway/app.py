"""Composition of the ASGI application: the routes of the parts that this process carries."""

from __future__ import annotations

from collections.abc import Iterable

from auth.verifier import CachingVerifier, TokenVerifier
from edge.asgi import Route
from gateway.dispatch import Dispatcher
from gateway.middleware.access_log import AccessLog
from gateway.middleware.auth import Authenticator
from gateway.pages import Pages
from gateway.readiness import Readiness
from gateway.router import Router


def create_app(
    routes: Iterable[Route],
    verifier: TokenVerifier,
    readiness: Readiness,
    *,
    access_log_every: int = 0,
    body_timeout_s: float = 30.0,
) -> Dispatcher:
    """The caller runs `sweep()` of the result for as long as it serves."""
    router = Router()
    for route in routes:
        router.add(route)
    return Dispatcher(
        router,
        Authenticator(CachingVerifier(verifier)),
        Pages(readiness).application(),
        access_log=AccessLog(access_log_every),
        body_timeout_s=body_timeout_s,
    )
