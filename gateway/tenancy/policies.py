"""Policies of a tenant: who may do what, on what."""

from __future__ import annotations

from edge.asgi import Route
from gateway.resources import Call, Resource, Shown
from gateway.tenancy.answers import exists_already
from gateway.tenancy.policy_bodies import spec_of, view
from metadata.tenancy.policies import Policy, PolicyRepository
from openapi import access


class PolicyRoutes:
    def __init__(self, policies: PolicyRepository) -> None:
        self._policies = policies

    def routes(self) -> list[Route]:
        table = access.OPERATIONS
        policies = Resource("policy", table["getPolicy"], _shown)
        taken = exists_already("policy")
        return [
            policies.creates(table["createPolicy"], access.PolicyBody, self._create, taken),
            policies.lists(table["listPolicies"], self._policies.page),
            policies.gets(table["getPolicy"], self._policies.get),
            policies.puts(table["putPolicy"], access.PolicyBody, self._update, self._create),
            policies.deletes(table["deletePolicy"], self._delete),
        ]

    async def _create(self, call: Call, body: access.PolicyBody) -> Policy:
        return await self._policies.create(call.tenant_id, spec_of(body, call.name))

    async def _update(self, call: Call, body: access.PolicyBody) -> Policy:
        spec = spec_of(body, call.name)
        return await self._policies.update(
            call.tenant_id, call.name, spec, if_version=call.if_version, force=call.force
        )

    async def _delete(self, call: Call) -> None:
        """Raise LastOwner if no owner would be left, unless `force=true`."""
        await self._policies.delete(
            call.tenant_id, call.name, if_version=call.if_version, force=call.force
        )


def _shown(policy: Policy) -> Shown:
    return Shown(view(policy), policy.name, policy.version)
