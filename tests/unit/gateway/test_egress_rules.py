"""Test which endpoints each tenant may have, and how soon a change of the rule takes effect."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from auth.development import DEV_TENANT_ID
from edge.egress.guard import EgressDenied, Guard
from gateway.egress_rules import EgressRules
from metadata.errors import MetadataUnavailable, NotFound
from metadata.types import Change, ChangeKind, Tenant

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE, OTHER = bytes(15) + b"1", bytes(15) + b"2"


class Tenants:
    """Rows by id; each reading waits for `gate` where there is one."""

    def __init__(self) -> None:
        self.allowed: dict[bytes, tuple[str, ...]] = {ONE: ("10.0.0.0/8",), OTHER: ()}
        self.readings = 0
        self.gate: asyncio.Event | None = None
        self.down = False

    async def get_by_id(self, tenant_id: bytes) -> Tenant:
        self.readings += 1
        if self.down:
            raise MetadataUnavailable("a test")
        if tenant_id not in self.allowed:
            raise NotFound("tenant", tenant_id.hex())
        allowed = self.allowed[tenant_id]
        if self.gate is not None:
            await self.gate.wait()
        return Tenant(tenant_id, "t", "", "active", {}, allowed, 1, NOW, NOW)


def rules(tenants: Tenants) -> EgressRules:
    return EgressRules(tenants, ("192.168.1.0/24",), (443,))


def changed(tenant_id: bytes, kind: ChangeKind = ChangeKind.TENANT) -> list[Change]:
    return [Change(2, kind, tenant_id, tenant_id, "t")]


async def test_what_the_development_tenant_may_reach_no_other_may() -> None:
    tenants = Tenants()
    tenants.allowed[DEV_TENANT_ID] = ("10.0.0.0/8",)
    egress = EgressRules(tenants, (), (443,), development=("http://127.0.0.0/8:*",))
    target = (await egress.guard_of(DEV_TENANT_ID)).target("http", "127.0.0.1", 9)
    (await egress.guard_of(DEV_TENANT_ID)).check_address(target, "127.0.0.1")
    for tenant_id in (ONE, OTHER, bytes(16)):
        with pytest.raises(EgressDenied):
            (await egress.guard_of(tenant_id)).target("http", "127.0.0.1", 9)


async def test_what_the_platform_allows_is_for_all_and_what_a_tenant_has_for_it_alone() -> None:
    tenants = Tenants()
    egress = rules(tenants)
    assert (await egress.guard_of(ONE)) == Guard(("192.168.1.0/24", "10.0.0.0/8"), (443,))
    assert (await egress.guard_of(OTHER)) is egress.platform
    assert (await egress.guard_of(bytes(16))) is egress.platform
    target = egress.platform.target("https", "a.example", None)
    (await egress.guard_of(ONE)).check_address(target, "10.1.1.1")
    with pytest.raises(EgressDenied):
        (await egress.guard_of(OTHER)).check_address(target, "10.1.1.1")
    for tenant_id in (ONE, OTHER):
        (await egress.guard_of(tenant_id)).check_address(target, "192.168.1.1")


async def test_a_row_is_read_once_until_it_changes() -> None:
    tenants = Tenants()
    egress = rules(tenants)
    for _ in range(3):
        await egress.guard_of(ONE)
    assert tenants.readings == 1
    tenants.down = True
    await egress.guard_of(ONE)
    with pytest.raises(MetadataUnavailable):
        await egress.guard_of(OTHER)
    tenants.down, tenants.allowed[ONE] = False, ()
    await egress.on_changes(changed(OTHER))
    assert (await egress.guard_of(ONE)) is not egress.platform
    for kind in (ChangeKind.TENANT, ChangeKind.RESET):
        await egress.on_changes(changed(ONE, kind))
        assert (await egress.guard_of(ONE)) is egress.platform


async def test_what_was_read_while_it_changed_is_not_kept() -> None:
    tenants = Tenants()
    egress, tenants.gate = rules(tenants), asyncio.Event()
    reading = asyncio.ensure_future(egress.guard_of(ONE))
    while not tenants.readings:
        await asyncio.sleep(0)
    tenants.allowed[ONE] = ()
    await egress.on_changes(changed(ONE))
    tenants.gate.set()
    await reading
    assert (await egress.guard_of(ONE)) is egress.platform


async def test_a_list_that_does_not_hold_allows_nothing() -> None:
    tenants = Tenants()
    tenants.allowed[ONE] = ("10.0.0.0/8", "no entry")
    egress = rules(tenants)
    assert (await egress.guard_of(ONE)) is egress.platform
