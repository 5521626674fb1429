"""Composition of the ASGI application: the routes of the parts that this process carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auth.verifier import CachingVerifier, TokenVerifier
from edge.asgi import Route
from edge.quota import NO_LIMITS, Quotas, Usage
from gateway.admission.admission import Admission
from gateway.admission.request_admission import RequestAdmission
from gateway.http.cors import Cors, response_headers
from gateway.http.dispatch import Dispatcher
from gateway.http.pages import Pages
from gateway.http.router import Router
from gateway.middleware.access_log import AccessLog
from gateway.readiness import Readiness
from gateway.stream_tickets import StreamTickets


def create_app(
    routes: Iterable[Route],
    verifier: TokenVerifier,
    readiness: Readiness,
    *,
    access_log_every: int = 0,
    body_timeout_s: float = 30.0,
    cors_origins: Sequence[str] = (),
    tickets: StreamTickets | None = None,
    admission: Admission | None = None,
    quotas: Quotas = NO_LIMITS,
    usage: Usage = NO_LIMITS,
) -> Dispatcher:
    """Create the application. Its caller runs `sweep()` of the result for as long as it serves.

    A verifier that does not cache gets a cache that no change empties: for tests, and where nothing
    changes. Without `admission`, which the caller ticks, every request is admitted.
    """
    if not isinstance(verifier, CachingVerifier):
        verifier = CachingVerifier(verifier)
    router = Router()
    for route in routes:
        router.add(route)
    cors = Cors(cors_origins, response_headers()) if cors_origins else None
    asked = None if admission is None else RequestAdmission(admission, router.endpoints)
    return Dispatcher(
        router,
        verifier,
        Pages(readiness).application(),
        access_log=AccessLog(access_log_every),
        body_timeout_s=body_timeout_s,
        admission=asked,
        cors=cors,
        tickets=tickets,
        quotas=quotas,
        usage=usage,
    )
