# Generated from aio/resources/quotas.py: `make generate`. Do not edit.
"""Quotas: the limits of a tenant."""

from __future__ import annotations

from packetboat import models
from packetboat.calls import tenancy as calls
from packetboat.models import Limits
from packetboat.sync.sender import Sender


class Quotas:
    """Quotas: the limits of a tenant."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def get(self, tenant: str | None = None, *, timeout_s: float | None = None) -> models.Quotas:
        """Return the own quotas, or those of a tenant, for operators."""
        if tenant is None:
            return self._sender.send(calls.get_own_quotas(), timeout_s)
        return self._sender.send(calls.get_quotas(tenant), timeout_s)

    def put(
        self,
        tenant: str,
        limits: Limits,
        *,
        weight: float | None = None,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> models.Quotas:
        """Set all limits that a tenant has of its own, for operators; limits that are not named are
        the platform's."""
        return self._sender.send(calls.put_quotas(tenant, limits, weight, if_match), timeout_s)
