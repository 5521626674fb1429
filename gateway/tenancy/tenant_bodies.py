"""Tenants between the API and the rows."""

from __future__ import annotations

import re

from edge.egress.guard import parse_allowance
from edge.problem import FieldError, invalid
from gateway.names import label_errors, name_errors
from gateway.tenancy.answers import name_errors_of
from metadata.tenancy.clients import ClientSpec
from metadata.types import Tenant, TenantSpec
from openapi import tenants

_ISSUER_ENTRY = re.compile(tenants.ISSUER_ENTRY)


def spec_of(body: tenants.TenantBody, name: str) -> TenantSpec:
    """Return the tenant that a body describes; raise a 422 Problem, or 409 for another name."""
    errors = (
        name_errors_of(body.name, name)
        + label_errors(body.labels)
        + _egress_errors(body.egress_allowed)
    )
    errors += _issuer_errors(body.issuers_allowed)
    if body.owner is not None:
        errors += name_errors(body.owner.name, "owner.name")
    if errors:
        raise invalid("The body does not fit.", errors)
    return TenantSpec(
        name,
        body.display_name,
        body.state,
        body.labels,
        tuple(dict.fromkeys(body.egress_allowed)),
        tuple(dict.fromkeys(body.issuers_allowed)),
    )


def first_client_of(body: tenants.TenantBody) -> ClientSpec | None:
    """Return the first client of a tenant, if the body asks for one."""
    return None if body.owner is None else ClientSpec(body.owner.name, body.owner.display_name)


def _egress_errors(allowed: list[str]) -> list[FieldError]:
    errors = []
    for at, entry in enumerate(allowed):
        try:
            parse_allowance(entry)
        except ValueError as error:
            errors.append(FieldError(f"egress_allowed[{at}]", str(error)))
    return errors


def _issuer_errors(allowed: list[str]) -> list[FieldError]:
    rule = "ISSUER#AUDIENCE: the iss and an aud of its tokens"
    return [
        FieldError(f"issuers_allowed[{at}]", rule)
        for at, entry in enumerate(allowed)
        if not _ISSUER_ENTRY.fullmatch(entry)
    ]


def view(tenant: Tenant) -> tenants.Tenant:
    """Return a tenant as the API shows it."""
    return tenants.Tenant(
        name=tenant.name,
        display_name=tenant.display_name,
        state=tenant.state,
        labels=dict(tenant.labels),
        egress_allowed=list(tenant.egress_allowed),
        issuers_allowed=list(tenant.issuers_allowed),
        token_audience=tenant.token_audience,
        created_at=tenant.created_at,
        updated_at=tenant.updated_at,
    )
