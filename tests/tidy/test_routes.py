"""The contract and the code name the same operations, and every one of them has a permission."""

from __future__ import annotations

from typing import Any

import pytest

import openapi
from auth.permissions import Permission
from auth.signing_keys import KeyPolicy, SigningKeys
from gateway.exports.exports import ExportRoutes
from gateway.exports.runner import RunnerRoutes
from gateway.exports.runs import ExportRunRoutes
from gateway.forwarders import ForwarderRoutes
from gateway.http.pages import Pages
from gateway.http.router import Router
from gateway.jobs.jobs import JobRoutes
from gateway.jobs.pools import PoolRoutes
from gateway.jobs.work import WorkRoutes
from gateway.locks.locks import LockRoutes
from gateway.oauth.discovery import DiscoveryRoutes
from gateway.oauth.endpoints import OAuthEndpoints
from gateway.readiness import Readiness
from gateway.schedules.schedules import ScheduleRoutes
from gateway.schemas.schemas import SchemaRoutes
from gateway.stream_tickets import StreamTickets
from gateway.subscriptions.signing_secrets import SigningSecretRoutes
from gateway.subscriptions.skip_rules import SkipRuleRoutes
from gateway.subscriptions.snapshots import SnapshotRoutes
from gateway.subscriptions.subscriptions import SubscriptionRoutes
from gateway.tenancy.audit import AuditRoutes
from gateway.tenancy.auditor import Auditor
from gateway.tenancy.clients import ClientRoutes
from gateway.tenancy.issuers import IssuerRoutes
from gateway.tenancy.keys import KeyRoutes
from gateway.tenancy.policies import PolicyRoutes
from gateway.tenancy.quotas import QuotaRoutes
from gateway.tenancy.tenants import TenantRoutes
from gateway.tenancy.usage import UsageRoutes
from gateway.topics.delayed import DelayedRoutes
from gateway.topics.partitions import PartitionRoutes
from gateway.topics.topics import TopicRoutes
from gateway.whoami import WhoAmI
from gateway.write_limit import WriteLimit
from harness.made_up_routes import made_up
from openapi.server import OPERATIONS
from publish_forwarder import routes as publish
from subscribe_forwarder.api import routes as subscribe
from subscribe_forwarder.api.acks import Acks
from subscribe_forwarder.api.backlogs import BacklogRoutes
from subscribe_forwarder.api.dead_letters import DeadLetters
from subscribe_forwarder.api.flow import FlowRoutes
from subscribe_forwarder.api.parked import ParkedKeys
from subscribe_forwarder.api.positions import PositionRoutes
from subscribe_forwarder.api.push import PushRoutes
from subscribe_forwarder.api.redrives import Redrives

METHODS = ("get", "put", "patch", "post", "delete")


class Anything:
    """Stands for the parts that handlers will use; listing routes uses none of them."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Anything()


@pytest.fixture
def router() -> Router:
    part: Any = Anything()
    router = Router()
    for route in (
        *TopicRoutes(part, part, part).routes(),
        *DelayedRoutes(part, part).routes(),
        *PartitionRoutes(part, part, part, part).routes(),
        *LockRoutes(part, part, part).routes(),
        *JobRoutes(part, part, part, part, part).routes(),
        *PoolRoutes(part).routes(),
        *WorkRoutes(part, part, part).routes(),
        *ExportRoutes(part, part, frozenset(), part).routes(),
        *ExportRunRoutes(part, part, part, part, 1).routes(),
        *RunnerRoutes(part, part, part, part, part, 1).routes(),
        *SchemaRoutes(part, part, part, part).routes(),
        *ScheduleRoutes(part, part, part, part).routes(),
        *SkipRuleRoutes(part, part, part).routes(),
        *SubscriptionRoutes(part, part, part, part, part, part, part).routes(),
        *SigningSecretRoutes(part, part).routes(),
        *SnapshotRoutes(part).routes(),
        *ForwarderRoutes(part, part).routes(),
        *TenantRoutes(part, part).routes(),
        *ClientRoutes(part).routes(),
        *KeyRoutes(part).routes(),
        *PolicyRoutes(part).routes(),
        *IssuerRoutes(part, part).routes(),
        *QuotaRoutes(part, part, {}).routes(),
        *UsageRoutes(part, part).routes(),
        *AuditRoutes(part, part).routes(),
        *WhoAmI(part, part).routes(),
        *(oauth := OAuthEndpoints(part, part, part, part, part, part, part)).routes(),
        *oauth.ending_routes(),
        *DiscoveryRoutes(SigningKeys(part, KeyPolicy()), "").routes(),
        *StreamTickets(None, part).routes(),
        *PositionRoutes(part, part, part, part).routes(),
        *publish.routes(part),
        *subscribe.routes(part, part, Acks(part, part, part), part),
        *DeadLetters(part, part, part).routes(),
        *Redrives(part, part, part).routes(),
        *ParkedKeys(part, part, part).routes(),
        *PushRoutes(part, part, part, part, part, part).routes(),
        *FlowRoutes(part, part, part).routes(),
        *BacklogRoutes(part, part, part, 1).routes(),
    ):
        router.add(route)
    return router


def operations() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): item[method]
        for path, item in openapi.document()["paths"].items()
        for method in METHODS
        if method in item
    }


def test_every_route_is_in_the_contract_and_the_other_way_round(router: Router) -> None:
    served = {(endpoint.method, endpoint.template) for endpoint in router.endpoints}
    served |= {("GET", OPERATIONS[id].path) for id in Pages(Readiness()).public()}
    described = set(operations())
    assert served - described == set(), "served and not described"
    assert described - served == set(), "described and not served"


def test_what_needs_a_token_says_so(router: Router) -> None:
    permissions = {(e.method, e.template): e.permission for e in router.endpoints}
    for key, operation in operations().items():
        public = permissions.get(key, Permission.PUBLIC) is Permission.PUBLIC
        assert (operation.get("security") == []) is public, key
        if not public:
            assert {"401", "403", "500"} <= set(operation["responses"]), key


def test_what_a_tenant_does_too_much_of_is_in_the_contract(router: Router) -> None:
    """Any operation takes from the rate of requests; a change of the control plane waits for its
    turn, too."""
    components = openapi.document()["components"]["responses"]
    part: Any = Anything()
    auditor, turns = Auditor(part), WriteLimit(per_second=50.0)
    for endpoint in router.endpoints:
        if endpoint.permission is Permission.PUBLIC:
            continue
        key = endpoint.method, endpoint.template
        described = operations()[key]["responses"].get("429", {"$ref": "none"})
        text = components[described["$ref"].rsplit("/", 1)[-1]]["description"]
        route = made_up(*key, endpoint.handler, endpoint.permission.value, "*")
        changing = auditor.audited(route)
        in_turn = changing is not route and turns.around(changing) is not changing
        assert "`rate-limited`" in text, key
        assert ("`too-many-changes`" in text) is (in_turn or "`too-many-stored`" in text), key


def test_path_parameters_are_described(router: Router) -> None:
    for endpoint in router.endpoints:
        item = openapi.document()["paths"][endpoint.template]
        described = {ref["$ref"].rsplit("/", 1)[-1] for ref in item.get("parameters", ())}
        assert described == set(endpoint.params), endpoint.template


def test_what_needs_a_token_may_be_refused_for_its_query(router: Router) -> None:
    """Each such operation refuses unknown query parameters with 400."""
    for endpoint in router.endpoints:
        if endpoint.permission is not Permission.PUBLIC:
            operation = operations()[endpoint.method, endpoint.template]
            assert "400" in operation["responses"], (endpoint.method, endpoint.template)


def test_head_is_refused_where_a_get_leases_or_streams(router: Router) -> None:
    for endpoint in router.endpoints:
        if endpoint.method != "GET":
            continue
        answer = operations()["GET", endpoint.template]["responses"]["200"]
        streams = any("ndjson" in kind for kind in answer.get("content", ()))
        leases = endpoint.permission is Permission.CONSUME and "messages" in endpoint.template
        assert endpoint.head is not (streams or leases), endpoint.template


def test_operation_ids_and_tags() -> None:
    ids = [operation["operationId"] for operation in operations().values()]
    assert len(ids) == len(set(ids))
    tags = {tag["name"] for tag in openapi.document()["tags"]}
    assert {tag for operation in operations().values() for tag in operation["tags"]} == tags
