"""Admission: bounds of the settings, weights of the quotas, and the load of this process."""

from __future__ import annotations

from edge.lifetime import own
from gateway.admission.admission import Admission, Limits
from gateway.admission.weights import Weights
from gateway.wiring.parts import Shared
from metadata.tenancy.quotas import QuotaRepository


def open_admission(shared: Shared) -> Admission:
    """Return an admission that ticks until the parts are closed."""
    settings, load = shared.settings, shared.parts.load
    limits = Limits(settings.max_requests, settings.max_waiting, settings.max_request_bytes)
    weights = Weights(QuotaRepository(shared.database), lambda: admission.follow_weights())
    admission = Admission(limits, weights.of)
    shared.feed.add_listener(weights.on_changes)
    own(shared.stack, weights.run)
    load.add_listener(lambda took_s: admission.tick(took_s, load.overloaded, load.process_cpu))
    load.start()
    shared.stack.callback(load.stop)
    return admission
