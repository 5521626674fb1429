"""Subscriptions that change in place, and their skip rules, in Postgres."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from metadata.database import Database
from metadata.errors import Conflict, NotFound
from metadata.ids import new_uid
from metadata.subscriptions.push_config import (
    OidcToken,
    PushConfig,
    SigningKey,
)
from metadata.subscriptions.skip_rules import MAX_ACTIVE, SkipRuleRepository
from metadata.types import (
    RetryPolicy,
    Subscription,
    SubscriptionSpec,
)
from tests.integration.metadata.world import World

CHANGED = SubscriptionSpec(
    "billing",
    ack_deadline_s=12.5,
    retry=RetryPolicy(0.5, 9.0, 3),
    labels={"a": "b"},
    dead_letter_topic="dead",
    on_exhausted="park",
    filter="data.n > 1",
    rate_limit=5.0,
    consumer_rate_limit=2.5,
    max_outstanding=7,
)


def to(spec: SubscriptionSpec) -> Callable[[Subscription], SubscriptionSpec]:
    return lambda present: spec


async def test_what_may_change_does_and_what_may_not_stays(world: World) -> None:
    made = await world.subscription(await world.topic())
    wanted = replace(CHANGED, name="other", ordered=True, start={"offset": 4})
    changed = await world.subscriptions.update(world.tenant_id, "billing", to(wanted))
    assert changed == await world.subscriptions.get(world.tenant_id, "billing")
    for name in ("name", "ordered", "start", "uid", "generation", "created_at", "topic_name"):
        assert getattr(changed, name) == getattr(made, name), name
    for name in ("ack_deadline_s", "retry", "labels", "dead_letter_topic", "on_exhausted"):
        assert getattr(changed, name) == getattr(CHANGED, name), name
    for name in ("filter", "rate_limit", "consumer_rate_limit", "max_outstanding"):
        assert getattr(changed, name) == getattr(CHANGED, name), name
    assert changed.version > made.version


async def test_no_difference_is_no_new_version(world: World) -> None:
    await world.subscription(await world.topic())
    first = await world.subscriptions.update(world.tenant_id, "billing", to(CHANGED))
    again = await world.subscriptions.update(
        world.tenant_id, "billing", to(CHANGED), if_version=first.version
    )
    assert again == first
    with pytest.raises(Conflict):
        await world.subscriptions.update(
            world.tenant_id, "billing", to(CHANGED), if_version=first.version - 1
        )
    with pytest.raises(NotFound):
        await world.subscriptions.update(world.tenant_id, "nobody", to(CHANGED))


async def test_what_a_change_raises_leaves_everything_as_it_was(world: World) -> None:
    made = await world.subscription(await world.topic())

    def refuse(present: Subscription) -> SubscriptionSpec:
        assert present == made
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await world.subscriptions.update(world.tenant_id, "billing", refuse)
    assert await world.subscriptions.get(world.tenant_id, "billing") == made


async def test_rules_come_with_their_subscription_and_stay_for_the_audit(
    world: World, database: Database
) -> None:
    rules, tenant_id = SkipRuleRepository(database), world.tenant_id
    topic = await world.topic()
    made = await world.subscription(topic)
    await world.subscription(topic, "plain")
    first = await rules.add(
        tenant_id, "billing", expression="false", reason="why", created_by="ann"
    )
    second = await rules.add(
        tenant_id, "billing", expression="true", reason="why", created_by="bob"
    )
    present = await world.subscriptions.get(tenant_id, "billing")
    assert (present.skip_rules, present.version > made.version) == ((first, second), True)
    listed = await world.subscriptions.of_topic(tenant_id, topic.uid)
    assert [one.skip_rules for one in listed] == [(first, second), ()]
    changed = await world.subscriptions.update(tenant_id, "billing", to(CHANGED))
    assert changed.skip_rules == (first, second)

    await rules.remove(tenant_id, "billing", first.uid, removed_by="cat")
    present = await world.subscriptions.get(tenant_id, "billing")
    assert (present.skip_rules, present.version > changed.version) == ((second,), True)
    await rules.remove(tenant_id, "billing", first.uid, removed_by="dan")
    assert (await world.subscriptions.get(tenant_id, "billing")).version == present.version
    assert await rules.of(tenant_id, "billing", removed=False) == (second,)
    (gone, kept) = await rules.of(tenant_id, "billing", removed=True)
    assert (gone.removed_by, kept) == ("cat", second)
    assert gone.removed_at is not None


async def test_rules_of_another_subscription_are_not_there(
    world: World, database: Database
) -> None:
    rules, tenant_id = SkipRuleRepository(database), world.tenant_id
    topic = await world.topic()
    await world.subscription(topic)
    await world.subscription(topic, "other")
    rule = await rules.add(tenant_id, "billing", expression="true", reason="", created_by="ann")
    with pytest.raises(NotFound):
        await rules.remove(tenant_id, "other", rule.uid, removed_by="ann")
    elsewhere = await World.open(database)
    with pytest.raises(NotFound):
        await rules.of(elsewhere.tenant_id, "billing", removed=True)
    with pytest.raises(NotFound):
        await rules.add(
            elsewhere.tenant_id, "billing", expression="true", reason="", created_by="eve"
        )


async def test_so_many_rules_hold_and_no_more(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metadata.subscriptions.skip_rules.MAX_ACTIVE", 2)
    assert MAX_ACTIVE == 100
    rules, tenant_id = SkipRuleRepository(database), world.tenant_id
    await world.subscription(await world.topic())
    made = [
        await rules.add(tenant_id, "billing", expression="true", reason="", created_by="ann")
        for _ in range(2)
    ]
    with pytest.raises(Conflict):
        await rules.add(tenant_id, "billing", expression="true", reason="", created_by="ann")
    await rules.remove(tenant_id, "billing", made[0].uid, removed_by="ann")
    await rules.add(tenant_id, "billing", expression="true", reason="", created_by="ann")
    await world.subscriptions.delete(tenant_id, "billing")


PUSH = PushConfig(
    url="https://example.com/hook",
    format="cloudevents_batched",
    headers={"Authorization": b"sealed \x00"},
    signing=(SigningKey("k1", "v1", b"\xff", datetime(2026, 1, 1, tzinfo=UTC)),),
    oidc=OidcToken("them"),
    timeout_s=2.5,
    max_batch=10,
)


async def test_a_subscription_becomes_push_and_pull_again_and_keeps_its_backlog(
    world: World,
) -> None:
    made = await world.subscription(await world.topic(), floor=7)
    cursors = await world.cursors.of_subscription(world.tenant_id, made.uid)
    pushed = replace(CHANGED, type="push", push=PUSH)
    changed = await world.subscriptions.update(world.tenant_id, "billing", to(pushed))
    assert (changed.uid, changed.type, changed.push) == (made.uid, "push", PUSH)
    again = await world.subscriptions.update(world.tenant_id, "billing", to(pushed))
    assert again.version == changed.version
    back = await world.subscriptions.update(world.tenant_id, "billing", to(CHANGED))
    assert (back.type, back.push, back.generation) == ("pull", None, made.generation)
    assert await world.cursors.of_subscription(world.tenant_id, made.uid) == cursors


async def test_a_uid_that_the_caller_chose(world: World) -> None:
    topic, uid = await world.topic(), new_uid()
    spec = SubscriptionSpec("hook", type="push", push=PUSH)
    made = await world.subscriptions.create(world.tenant_id, topic.uid, spec, {}, uid)
    assert (made.uid, made.push) == (uid, PUSH)
    assert await world.subscriptions.get(world.tenant_id, "hook") == made
