"""Reads of all that a tenant has: none takes long of the event loop in one callback."""

from __future__ import annotations

from metadata.tenancy.policies import PolicyRepository
from tests.integration.metadata.world import World
from tests.loop_cpu import MAX_CALLBACK_MS, measured

POLICIES = 4000
"""More than the default limit: an operator may allow them, and an older tenant may have them."""
_FILL = """
INSERT INTO policies (tenant_id, uid, name, role, members, resources, labels, version)
SELECT $1, gen_random_uuid(), 'p' || lpad(n::text, 4, '0'), 'viewer',
    jsonb_build_array('client:a' || n, 'client:b' || n),
    (SELECT jsonb_agg('topics/' || n || '-' || i) FROM generate_series(1, 100) AS i),
    jsonb_build_object('team', 'a'),
    1
FROM generate_series(1, $2::int) AS n
"""


async def test_all_policies_of_a_tenant_are_read_in_short_callbacks(world: World) -> None:
    """4,000 policies took one callback of 73 ms."""

    async def fill(connection: object) -> None:
        await connection.execute(_FILL, world.tenant_id, POLICIES)  # type: ignore[attr-defined]

    await world.database.transaction(fill)
    policies = PolicyRepository(world.database)
    await policies.page(world.tenant_id, page_size=1)
    async with measured() as callbacks:
        found = await policies.of_tenant(world.tenant_id)
    assert [each.name for each in found] == [f"p{n:04}" for n in range(1, POLICIES + 1)]
    assert {len(each.resources) for each in found} == {100}
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
