"""Exports, in processes that have the control plane."""

from __future__ import annotations

from auth.run_tokens import RunTokens
from edge.lifetime import own
from gateway.exports.exports import ExportRoutes
from gateway.exports.planning import Offsets
from gateway.exports.runner import RunnerRoutes
from gateway.exports.runs import ExportRunRoutes
from gateway.exports.waits import RunClaims
from gateway.wiring.parts import Shared
from metadata.exports.exports import ExportRepository
from metadata.exports.leases import ExportLeaseRepository
from metadata.exports.runs import ExportRunRepository
from metadata.tenancy.revoked_tokens import RevokedTokenRepository


def open_exports(shared: Shared) -> None:
    """Open exports, which listen until the parts are closed."""
    parts, database, settings = shared.parts, shared.database, shared.settings
    leases = ExportLeaseRepository(database)
    claims = RunClaims(leases)
    shared.stack.push_async_callback(claims.waits.close)
    own(shared.stack, lambda: claims.run(database), "claims of exports")
    parts.drains.append(claims.waits.drain)
    access, revoked = shared.identity.tokens.access, RevokedTokenRepository(database)
    of_runs = RunTokens(access, revoked, shared.feed.catch_up)
    exports, runs = ExportRepository(database), ExportRunRepository(database)
    offsets, most = Offsets(shared.store), settings.export_max_run_messages
    parts.routes += ExportRoutes(exports, offsets, settings.export_lakes, of_runs).routes()
    parts.routes += ExportRunRoutes(exports, runs, offsets, of_runs, most).routes()
    parts.routes += RunnerRoutes(exports, leases, claims, offsets, of_runs, most).routes()
