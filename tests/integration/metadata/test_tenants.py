"""Tenants and what they own: names, versions, owners, and going step by step."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from metadata.counts import BUILT_IN_LIMITS
from metadata.database import Database
from metadata.errors import Conflict, LastOwner, NotFound, QuotaExceeded, TooManySecrets
from metadata.tenancy.api_keys import ApiKeyRepository, ApiKeySpec
from metadata.tenancy.clients import ClientRepository, ClientSpec
from metadata.tenancy.credentials import (
    Secret,
    new_api_key,
    new_client_id,
    new_client_secret,
    new_key_id,
)
from metadata.tenancy.issuers import IssuerRepository, IssuerSpec, IssuerTaken
from metadata.tenancy.policies import PolicyRepository, PolicySpec
from metadata.tenancy.quotas import QuotaRepository, TenantQuota
from metadata.tenancy.tenants import FirstOwner, TenantRepository
from metadata.topics.schedules import ScheduleRepository, ScheduleSpec
from metadata.topics.schemas import SchemaRepository
from metadata.topics.topics import TopicRepository
from metadata.types import ChangeKind, Tenant, TenantSpec, TopicSpec
from tests.integration.metadata.world import World

NOW = datetime.now(UTC)


def secret() -> Secret:
    return new_client_secret(datetime.now(UTC)).secret


class Town:
    """A tenant with an owner, and the repositories."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.tenants = TenantRepository(database)
        self.clients = ClientRepository(database)
        self.keys = ApiKeyRepository(database)
        self.policies = PolicyRepository(database)
        self.issuers = IssuerRepository(database)
        self.quotas = QuotaRepository(database)

    async def tenant(self, name: str = "acme", *, owner: bool = True) -> Tenant:
        first = FirstOwner(ClientSpec("root"), new_client_id(), secret()) if owner else None
        made, _ = await self.tenants.create(TenantSpec(name), first)
        return made


@pytest.fixture
def town(database: Database) -> Town:
    return Town(database)


async def test_a_tenant_begins_with_an_owner(town: Town) -> None:
    owner = FirstOwner(ClientSpec("root"), new_client_id(), secret())
    tenant, client = await town.tenants.create(TenantSpec("acme", labels={"a": "b"}), owner)
    assert await town.tenants.get("acme") == await town.tenants.get_by_id(tenant.tenant_id)
    assert client is not None
    assert await town.clients.by_client_id(owner.client_id) == client
    (policy,) = await town.policies.of_tenant(tenant.tenant_id)
    assert (policy.role, policy.members, policy.resources) == ("owner", ("client:root",), ("*",))
    with pytest.raises(Conflict) as taken:
        await town.tenants.create(TenantSpec("acme"))
    assert taken.value.existing == tenant


async def test_the_same_again_is_no_new_version(town: Town) -> None:
    tenant = await town.tenant()
    again = await town.tenants.update(TenantSpec("acme"))
    assert again == tenant
    changed = await town.tenants.update(TenantSpec("acme", "Acme"), if_version=tenant.version)
    assert changed.version > tenant.version
    with pytest.raises(Conflict):
        await town.tenants.update(TenantSpec("acme", "Other"), if_version=tenant.version)


async def test_of_two_changes_under_one_version_one_is_made(town: Town) -> None:
    tenant = await town.tenant()
    policy = await town.policies.create(
        tenant.tenant_id, PolicySpec("p", "viewer", ("client:root",), ("*",))
    )
    tries = [
        town.policies.update(
            tenant.tenant_id,
            "p",
            PolicySpec("p", role, ("client:root",), ("*",)),
            if_version=policy.version,
        )
        for role in ("admin", "publisher", "subscriber")
    ]
    outcomes = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 2
    (made,) = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert await town.policies.get(tenant.tenant_id, "p") == made


async def test_names_of_other_tenants_are_not_there(town: Town) -> None:
    mine, other = await town.tenant("mine"), await town.tenant("other")
    await town.clients.create(mine.tenant_id, ClientSpec("app"), new_client_id(), secret())
    for attempt in (
        town.clients.get(other.tenant_id, "app"),
        town.clients.delete(other.tenant_id, "app"),
        town.clients.update(other.tenant_id, "app", ClientSpec("app", "x")),
        town.clients.revoke_tokens(other.tenant_id, "app"),
    ):
        with pytest.raises(NotFound):
            await attempt
    page = await town.clients.page(other.tenant_id)
    assert [client.name for client in page.items] == ["root"]


async def test_pages_are_by_name(town: Town) -> None:
    tenant = await town.tenant()
    for name in ("c", "a", "b"):
        await town.policies.create(tenant.tenant_id, PolicySpec(name, "viewer", ("key:k",), ("*",)))
    first = await town.policies.page(tenant.tenant_id, page_size=3)
    assert [policy.name for policy in first.items] == ["a", "b", "c"]
    rest = await town.policies.page(tenant.tenant_id, page_size=3, page_token=first.next_token)
    assert [policy.name for policy in rest.items] == ["owners"]
    assert rest.next_token is None


async def test_two_secrets_hold_while_one_follows_the_other(town: Town) -> None:
    tenant = await town.tenant()
    old = (await town.clients.get(tenant.tenant_id, "root")).secrets[0]
    until = datetime.now(UTC) + timedelta(hours=1)
    new = secret()
    client = await town.clients.add_secret(tenant.tenant_id, "root", new, until)
    assert [each.prefix for each in client.secrets] == [new.prefix, old.prefix]
    assert [each.expires_at for each in client.secrets] == [None, until]
    with pytest.raises(TooManySecrets):
        await town.clients.add_secret(tenant.tenant_id, "root", secret(), until)
    client = await town.clients.remove_secret(tenant.tenant_id, "root", old.prefix)
    assert client.secrets == (new,)
    with pytest.raises(NotFound):
        await town.clients.remove_secret(tenant.tenant_id, "root", old.prefix)


async def test_what_expired_is_no_secret_and_goes(town: Town) -> None:
    tenant = await town.tenant()
    past = datetime.now(UTC) - timedelta(seconds=1)
    new = secret()
    client = await town.clients.add_secret(tenant.tenant_id, "root", new, past)
    assert client.secrets == (new,)


async def test_a_key_is_rotated_under_its_id(town: Town) -> None:
    tenant = await town.tenant()
    key_id = new_key_id()
    first = new_api_key(key_id, NOW).secret
    spec = ApiKeySpec("ci", ("publish",))
    await town.keys.create(tenant.tenant_id, spec, key_id, first)
    second = new_api_key(key_id, datetime.now(UTC)).secret
    until = datetime.now(UTC) + timedelta(hours=1)
    key = await town.keys.rotate(tenant.tenant_id, "ci", second, until)
    assert [each.hash for each in key.secrets] == [second.hash, first.hash]
    assert await town.keys.by_key_id(key_id) == key


@pytest.mark.parametrize(
    "end",
    [
        lambda town, t: town.policies.delete(t, "owners"),
        lambda town, t: town.policies.update(
            t, "owners", PolicySpec("owners", "admin", ("client:root",), ("*",))
        ),
        lambda town, t: town.policies.update(
            t, "owners", PolicySpec("owners", "owner", ("client:root",), ("topics/*",))
        ),
        lambda town, t: town.policies.update(
            t, "owners", PolicySpec("owners", "owner", ("client:nobody",), ("*",))
        ),
        lambda town, t: town.clients.delete(t, "root"),
        lambda town, t: town.clients.update(t, "root", ClientSpec("root", state="disabled")),
    ],
)
async def test_the_last_owner_stays(town: Town, end) -> None:  # type: ignore[no-untyped-def]
    tenant = await town.tenant()
    with pytest.raises(LastOwner):
        await end(town, tenant.tenant_id)
    await town.clients.create(tenant.tenant_id, ClientSpec("second"), new_client_id(), secret())
    other = PolicySpec("more", "owner", ("client:sec*",), ("*",))
    await town.policies.create(tenant.tenant_id, other)
    await end(town, tenant.tenant_id)


async def test_the_last_secret_of_the_last_owner_stays_unless_forced(town: Town) -> None:
    tenant = await town.tenant()
    (only,) = (await town.clients.get(tenant.tenant_id, "root")).secrets
    with pytest.raises(LastOwner):
        await town.clients.remove_secret(tenant.tenant_id, "root", only.prefix)
    client = await town.clients.remove_secret(tenant.tenant_id, "root", only.prefix, force=True)
    assert client.secrets == ()
    await town.policies.delete(tenant.tenant_id, "owners")  # there was none left to lose


async def test_of_two_last_owners_that_go_at_once_one_stays(town: Town) -> None:
    tenant = await town.tenant()
    await town.clients.create(tenant.tenant_id, ClientSpec("second"), new_client_id(), secret())
    spec = PolicySpec("more", "owner", ("client:second",), ("*",))
    await town.policies.create(tenant.tenant_id, spec)
    outcomes = await asyncio.gather(
        town.clients.delete(tenant.tenant_id, "root"),
        town.clients.delete(tenant.tenant_id, "second"),
        return_exceptions=True,
    )
    assert sum(isinstance(outcome, LastOwner) for outcome in outcomes) == 1


async def test_an_issuers_subject_and_a_key_are_owners_too(town: Town) -> None:
    tenant = await town.tenant()
    issuer = IssuerSpec("sso", "https://id.example", "packetboat", ("RS256",))
    await town.issuers.create(tenant.tenant_id, issuer)
    spec = PolicySpec("owners", "owner", ("issuer:s*#ann",), ("*",))
    await town.policies.update(tenant.tenant_id, "owners", spec)
    with pytest.raises(LastOwner):
        await town.issuers.delete(tenant.tenant_id, "sso")
    key_id = new_key_id()
    minted = new_api_key(key_id, datetime.now(UTC))
    ended = ApiKeySpec("old", ("administer",), datetime.now(UTC) - timedelta(seconds=1))
    await town.keys.create(tenant.tenant_id, ended, key_id, minted.secret)
    for other in (ended, ApiKeySpec("old", ("manage", "administer:topics/x"))):
        await town.keys.update(tenant.tenant_id, "old", other)
        with pytest.raises(LastOwner):
            await town.issuers.delete(tenant.tenant_id, "sso")
    await town.keys.update(tenant.tenant_id, "old", ApiKeySpec("old", ("administer",)))
    await town.issuers.delete(tenant.tenant_id, "sso")
    with pytest.raises(LastOwner):
        await town.keys.delete(tenant.tenant_id, "old")


async def test_an_issuer_and_audience_have_one_name_in_a_tenant(town: Town) -> None:
    mine, other = await town.tenant("mine"), await town.tenant("other")
    spec = IssuerSpec("sso", "https://id.example", "packetboat", ("RS256",))
    made = await town.issuers.create(mine.tenant_id, spec)
    with pytest.raises(IssuerTaken):
        await town.issuers.create(mine.tenant_id, replace(spec, name="again"))
    elsewhere = replace(spec, name="else", audience="elsewhere", trust="document")
    kept = await town.issuers.create(mine.tenant_id, elsewhere)
    with pytest.raises(IssuerTaken):
        await town.issuers.update(mine.tenant_id, "else", replace(spec, name="else"))
    # A tenant has nothing to do with what another one has.
    theirs = await town.issuers.create(other.tenant_id, spec)
    found = await town.issuers.by_issuer("https://id.example")
    assert sorted(found, key=lambda each: each.version) == [made, kept, theirs]
    assert (made.trust, kept.trust) == ("unproved", "document")


async def test_an_operator_makes_sure_of_what_is_there_and_takes_it_back(town: Town) -> None:
    tenant = await town.tenant()
    spec = IssuerSpec("sso", "https://id.example", "packetboat", ("RS256",))
    own = replace(spec, name="own", audience="own", trust="audience")
    for each in (spec, own):
        await town.issuers.create(tenant.tenant_id, each)
    allowed = ("https://id.example#packetboat", "https://id.example#own")
    for issuers, trust in ((allowed, "operator"), ((), "withdrawn")):
        before = await town.issuers.get(tenant.tenant_id, "sso")
        told = TenantSpec(tenant.name, issuers_allowed=issuers)
        assert (await town.tenants.update(told)).issuers_allowed == issuers
        after = await town.issuers.get(tenant.tenant_id, "sso")
        assert (after.trust, after.version > before.version) == (trust, True)
        assert (await town.issuers.get(tenant.tenant_id, "own")).trust == "audience"


async def test_quotas_are_put_whole(town: Town) -> None:
    tenant = await town.tenant()
    assert (await town.quotas.get(tenant.tenant_id)).version == 0
    quota = await town.quotas.put(tenant.tenant_id, {"topics": 3}, 2.0, if_version=0)
    assert await town.quotas.put(tenant.tenant_id, {"topics": 3}, 2.0) == quota
    with pytest.raises(Conflict):
        await town.quotas.put(tenant.tenant_id, {}, 1.0, if_version=0)
    assert await town.quotas.all() == (quota,)


async def test_when_something_was_used(town: Town) -> None:
    tenant = await town.tenant()
    client = await town.clients.get(tenant.tenant_id, "root")
    await town.clients.touch([(tenant.tenant_id, client.uid, NOW), (bytes(16), bytes(16), NOW)])
    earlier = NOW - timedelta(hours=1)
    await town.clients.touch([(tenant.tenant_id, client.uid, earlier)])
    await town.clients.touch([])
    after = await town.clients.get(tenant.tenant_id, "root")
    assert after.last_used_at == NOW
    assert after.version == client.version


async def test_every_change_is_told(world: World) -> None:
    told: list[tuple[ChangeKind, str]] = []

    async def listen(changes) -> None:  # type: ignore[no-untyped-def]
        told.extend((change.kind, change.name) for change in changes)

    town = Town(world.database)
    await world.feed.start()
    world.feed.add_listener(listen)
    tenant = await town.tenant()
    await town.quotas.put(tenant.tenant_id, {}, 1.0)
    await town.clients.revoke_tokens(tenant.tenant_id, "root")
    await town.policies.delete(tenant.tenant_id, "owners", force=True)
    await world.feed.catch_up()
    assert told == [
        (ChangeKind.TENANT, "acme"),
        (ChangeKind.CLIENT, "root"),
        (ChangeKind.POLICY, "owners"),
        (ChangeKind.QUOTA, "acme"),
        (ChangeKind.CLIENT, "root"),
        (ChangeKind.POLICY, "owners"),
    ]


async def test_a_tenant_with_topics_goes_only_by_force(world: World) -> None:
    town = Town(world.database)
    tenant = await town.tenants.get_by_id(world.tenant_id)
    topic = await world.topic()
    await world.subscription(topic)
    with pytest.raises(Conflict) as refused:
        await town.tenants.mark_deleting(tenant.name)
    assert refused.value.existing == 1
    going = await town.tenants.mark_deleting(tenant.name, force=True)
    assert going.state == "deleting"
    assert await town.tenants.mark_deleting(tenant.name) == going
    assert await town.tenants.deleting() == (going,)
    with pytest.raises(Conflict):
        await town.tenants.update(TenantSpec(tenant.name))
    with pytest.raises(Conflict):
        await town.tenants.remove(tenant.tenant_id)


async def test_nothing_of_a_tenant_is_left(town: Town) -> None:
    stays, tenant = await town.tenant("stays"), await town.tenant()
    await town.quotas.put(tenant.tenant_id, {"topics": 3}, 1.0)
    await town.tenants.mark_deleting("acme")
    with pytest.raises(NotFound):
        await town.clients.create(tenant.tenant_id, ClientSpec("new"), new_client_id(), secret())
    for _ in range(2):
        await town.tenants.purge(tenant.tenant_id)
    for _ in range(2):
        await town.tenants.remove(tenant.tenant_id)
    with pytest.raises(NotFound):
        await town.tenants.get("acme")
    assert await town.policies.of_tenant(tenant.tenant_id) == ()
    assert len(await town.policies.of_tenant(stays.tenant_id)) == 1
    await town.tenants.remove(stays.tenant_id)  # not of one that stays
    assert await town.tenants.get("stays") == stays


async def test_topics_and_subscriptions_are_counted(world: World) -> None:
    town = Town(world.database)
    await town.quotas.put(world.tenant_id, {"topics": 2, "subscriptions": 1}, 1.0)
    await world.topic("a")
    outcomes = await asyncio.gather(
        world.topic("b"), world.topic("c"), world.topic("d"), return_exceptions=True
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, QuotaExceeded)]
    assert [(each.quota, each.limit, each.used) for each in refused] == [("topics", 2, 2)] * 2
    await world.topics.mark_deleting(world.tenant_id, "a")
    fresh = await world.topic("e")
    await world.subscription(fresh, "one")
    with pytest.raises(QuotaExceeded):
        await world.subscription(fresh, "two")
    await world.subscriptions.delete(world.tenant_id, "one")
    await world.subscription(fresh, "two")


async def test_the_platforms_limits_hold_where_a_tenant_has_none(world: World) -> None:
    topics = TopicRepository(world.database, {"topics": 1})
    await topics.create(world.tenant_id, TopicSpec("one"), [0])
    with pytest.raises(QuotaExceeded):
        await topics.create(world.tenant_id, TopicSpec("two"), [0])
    quotas = QuotaRepository(world.database)
    await quotas.put(world.tenant_id, {"topics": None}, 1.0)
    await topics.create(world.tenant_id, TopicSpec("two"), [0])


async def test_a_tenant_on_its_way_out_makes_no_topic(world: World) -> None:
    tenants = TenantRepository(world.database)
    tenant = await tenants.get_by_id(world.tenant_id)
    await tenants.mark_deleting(tenant.name)
    with pytest.raises(NotFound):
        await world.topic()


async def test_every_kind_of_object_has_a_limit_in_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant above a limit keeps its objects, and makes no more."""
    names = ("policies", "clients", "keys", "issuers", "schemas", "schedules")
    monkeypatch.setattr("metadata.counts.OBJECT_LIMITS", dict.fromkeys(names, 2), raising=False)
    tenant_id, topic = world.tenant_id, await world.topic("t")
    issuer = IssuerSpec("i", "https://issuer.example", "a", ("RS256",), "sub")
    policies, schemas = PolicyRepository(world.database), SchemaRepository(world.database)

    async def schedule(name: str) -> object:
        spec = ScheduleSpec(name, topic.uid, "0 0 * * *", "UTC", "skip", b"{}", None)
        return await ScheduleRepository(world.database).create(tenant_id, spec)

    async def policy(name: str) -> object:
        return await policies.create(tenant_id, PolicySpec(name, "viewer", ("key:k",), ("*",)))

    async def client(name: str) -> object:
        repository = ClientRepository(world.database)
        return await repository.create(tenant_id, ClientSpec(name), f"pbc_{name}", secret())

    async def key(name: str) -> object:
        repository = ApiKeyRepository(world.database)
        return await repository.create(tenant_id, ApiKeySpec(name, ("read",)), f"k{name}", secret())

    async def trusted(name: str) -> object:
        spec = replace(issuer, name=name, issuer=f"https://{name}.example")
        return await IssuerRepository(world.database).create(tenant_id, spec)

    async def schema(name: str) -> object:
        return await schemas.create(
            tenant_id, name, type_="json_schema", compatibility="none", definition="{}"
        )

    refused = []
    for make in (policy, client, key, trusted, schema, schedule):
        await make("one")
        await make("two")
        with contextlib.suppress(QuotaExceeded):
            await make("three")
            continue
        refused.append(make.__name__)
    assert refused == ["policy", "client", "key", "trusted", "schema", "schedule"]
    changed = PolicySpec("one", "publisher", ("key:k",), ("*",))
    assert (await policies.update(tenant_id, "one", changed)).role == "publisher"


async def test_a_tenant_of_an_earlier_release_is_exempt_from_built_in_limits(
    world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column has its server's default, as where an earlier release made the tenant."""
    monkeypatch.setitem(BUILT_IN_LIMITS, "topics", 1)
    quotas = QuotaRepository(world.database)
    assert not (await quotas.get(world.tenant_id)).exempt
    assert await quotas.all() == ()
    await world.topic("one")
    with pytest.raises(QuotaExceeded):
        await world.topic("two")
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("UPDATE tenants SET built_in_limits = DEFAULT")
    finally:
        await connection.close()
    await world.topic("two")
    (exempt,) = [each for each in await quotas.all() if each.tenant_id == world.tenant_id]
    assert exempt == await quotas.get(world.tenant_id) == TenantQuota(world.tenant_id, exempt=True)
    limited = TopicRepository(world.database, {"topics": 2})
    with pytest.raises(QuotaExceeded):
        await limited.create(world.tenant_id, TopicSpec("three"), range(1))
    assert (await quotas.put(world.tenant_id, {"topics": 2}, 1.0)).exempt
    with pytest.raises(QuotaExceeded):
        await world.topic("three")


async def test_members_of_all_policies_of_a_tenant_are_limited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new token is matched with all members of all policies."""
    monkeypatch.setattr("metadata.counts.OBJECT_LIMITS", {"policy_members": 5}, raising=False)
    policies = PolicyRepository(world.database)

    def spec(name: str, members: int) -> PolicySpec:
        return PolicySpec(name, "viewer", tuple(f"key:{n}" for n in range(members)), ("*",))

    async def put(name: str, members: int) -> None:
        await policies.update(world.tenant_id, name, spec(name, members))

    await policies.create(world.tenant_id, spec("one", 3))
    with pytest.raises(QuotaExceeded):
        await policies.create(world.tenant_id, spec("two", 3))
    await policies.create(world.tenant_id, spec("two", 2))
    with pytest.raises(QuotaExceeded):
        await put("one", 4)
    monkeypatch.setattr("metadata.counts.OBJECT_LIMITS", {"policy_members": 1})
    await put("one", 2)
    await put("two", 2)
