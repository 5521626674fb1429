"""Policies between the API and the rows."""

from __future__ import annotations

from typing import cast

from auth.policies import BadGrant, check_member, parse_resource
from edge.problem import invalid
from gateway.names import label_errors
from gateway.tenancy.answers import grant_errors, name_errors_of
from metadata.tenancy.policies import Policy, PolicySpec
from openapi import access

_KEY = "key:"


def spec_of(body: access.PolicyBody, name: str) -> PolicySpec:
    """Return the policy that a body describes; raise a 422 Problem, or 409 for another name."""
    errors = name_errors_of(body.name, name) + label_errors(body.labels)
    errors += grant_errors("members", body.members, _check_member)
    errors += grant_errors("resources", body.resources, parse_resource)
    if errors:
        raise invalid("The body does not fit.", errors)
    members, resources = dict.fromkeys(body.members), dict.fromkeys(body.resources)
    return PolicySpec(name, body.role, tuple(members), tuple(resources), body.labels)


def _check_member(text: str) -> None:
    if text.startswith(_KEY):
        raise BadGrant("a key may do what its scopes say, and no policy adds to them")
    check_member(text)


def view(policy: Policy) -> access.Policy:
    """Return a policy as the API shows it."""
    return access.Policy(
        name=policy.name,
        role=cast(access.Role, policy.role),
        members=list(policy.members),
        resources=list(policy.resources),
        labels=dict(policy.labels),
        created_at=policy.created_at,
        updated_at=policy.updated_at,
    )
