from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth.permissions import GRANTABLE, OF_OPERATORS, Permission
from auth.policies import (
    ROLES,
    BadGrant,
    PolicyBook,
    check_member,
    grants_of,
    is_member,
    parse_resource,
    parse_scope,
)
from auth.principal import Grant, Principal
from metadata.types import ChangeKind
from tests.loop_cpu import MAX_CALLBACK_MS, measured
from tests.unit.auth.tenancy_fakes import ACME, OTHER, Policies, change, policy

P = Permission


def test_the_five_roles() -> None:
    assert set(ROLES) == {"owner", "admin", "publisher", "subscriber", "viewer"}
    assert ROLES["owner"] == GRANTABLE - OF_OPERATORS
    assert ROLES["admin"] == GRANTABLE - OF_OPERATORS - {P.ADMINISTER}
    assert ROLES["publisher"] == {P.PUBLISH, P.LOCK}
    assert ROLES["subscriber"] == {P.CONSUME, P.LOCK, P.READ}
    assert ROLES["viewer"] == {P.READ}


@pytest.mark.parametrize(
    ("member", "subject", "is_one"),
    [
        ("client:app", "client:app", True),
        ("client:app-*", "client:app-7", True),
        ("client:app", "client:apple", False),
        ("client:*", "key:app", False),
        ("*", "client:app", False),
        ("client:*", "operator:root", False),
        ("issuer:corp#*", "issuer:corp#anna", True),
        ("issuer:corp#anna", "issuer:corp#bert", False),
        ("issuer:corp#admin", "issuer:corp#x#admin", False),
        ("issuer:*#admin", "issuer:corp#x#admin", False),
        ("issuer:*#admin", "issuer:corp#admin", True),
        ("issuer:corp", "issuer:corp#anna", False),
        ("client:a", "client:a#b", False),
    ],
)
def test_members(member: str, subject: str, is_one: bool) -> None:
    assert is_member(member, subject) is is_one


def test_a_role_on_resources() -> None:
    found = grants_of([policy("publisher", ["client:a"], ["topics/orders-*", "locks/l"])])
    assert found == {
        Grant(P.PUBLISH, "topic", "orders-*"),
        Grant(P.LOCK, "topic", "orders-*"),
        Grant(P.PUBLISH, "lock", "l"),
        Grant(P.LOCK, "lock", "l"),
    }
    principal = Principal(ACME, "client:a", found)
    assert principal.may_on(P.PUBLISH, "topic", "orders-1")
    assert principal.may_on(P.LOCK, "lock", "l")
    assert not principal.may_on(P.LOCK, "lock", "other")
    assert not principal.may_on(P.READ, "topic", "orders-1")


def test_an_owner_of_some_names_administers_nothing() -> None:
    principal = Principal(ACME, "client:a", grants_of([policy("owner", [], ["topics/*"])]))
    assert principal.may_all(P.MANAGE, "topic")
    assert not principal.caller.may_all("administer")


def test_what_a_later_version_wrote_grants_nothing() -> None:
    assert grants_of([policy("emperor", [], ["*"]), policy("viewer", [], ["streams/*"])]) == set()


@pytest.mark.parametrize(
    "text", ["", "topics", "topics/", "topic/a", "/a", "**", "streams/a", "topics/" + "x" * 250]
)
def test_what_is_no_resource(text: str) -> None:
    with pytest.raises(BadGrant, match="topics"):
        parse_resource(text)


def test_resources_are_written_as_they_are_read() -> None:
    for text in ("*", "topics/orders-*", "schedules/*", "locks/a"):
        assert str(parse_resource(text)) == text


def test_scopes() -> None:
    assert parse_scope("read") == Grant(P.READ, "*", "*")
    assert parse_scope("publish:topics/o-*") == Grant(P.PUBLISH, "topic", "o-*")
    assert parse_scope("administer:*") == Grant(P.ADMINISTER, "*", "*")
    for text in (
        "operate",
        "run_exports",
        "public",
        "self",
        "",
        "publish:",
        "publish:x",
        "publisher",
        ":topics/*",
    ):
        with pytest.raises(BadGrant):
            parse_scope(text)


def test_members_that_fit() -> None:
    for text in ("client:a", "key:*", "issuer:corp#anna", "issuer:corp#*"):
        check_member(text)
    for text in ("a", "client:", "issuer:corp", "issuer:#a", "issuer:a#", "operator:x", "dev", "*"):
        with pytest.raises(BadGrant, match="member"):
            check_member(text)


async def test_a_tenants_policies_are_read_once_and_again_after_a_change() -> None:
    policies = Policies(policy("viewer", ["client:a"], ["*"]))
    book = PolicyBook(policies)
    for _ in range(3):
        assert await book.of(ACME, "client:a") == {Grant(P.READ, "*", "*")}
        assert await book.of(ACME, "client:b") == frozenset()
        assert await book.of(OTHER, "client:a") == frozenset()
    assert policies.reads == 2
    policies.policies = ()
    await book.on_changes([change(ChangeKind.POLICY, OTHER), change(ChangeKind.TOPIC)])
    assert await book.of(ACME, "client:a")
    for kind in (ChangeKind.POLICY, ChangeKind.TENANT, ChangeKind.RESET):
        policies.policies = (policy("viewer", ["client:a"], ["*"]),)
        await book.on_changes([change(kind)])
        assert await book.of(ACME, "client:a")
        policies.policies = ()
        await book.on_changes([change(kind)])
        assert await book.of(ACME, "client:a") == frozenset()


def hostile_policies(count: int, members: int, resources: int = 1) -> Policies:
    return Policies(
        *(
            policy(
                "owner",
                [f"client:*a*b*c{number}-{index}" for index in range(members)] + ["client:who*"],
                [f"topics/*{number}-{index}" for index in range(resources)],
                f"p{number}",
            )
            for number in range(count)
        )
    )


async def test_many_policies_cost_a_new_token_no_long_callback() -> None:
    """This is proof 9 of the audit: 200 policies of 500 members, all matched for each new token."""
    book = PolicyBook(hostile_policies(100, 400))
    async with measured() as callbacks:
        for subject in ("client:who", "client:" + "ab" * 60 + "c7-9"):
            assert await book.of(ACME, subject)
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


async def test_a_caller_with_many_grants_costs_no_long_callback() -> None:
    book = PolicyBook(hostile_policies(100, 1, resources=100))
    async with measured() as callbacks:
        principal = Principal(ACME, "client:who", await book.of(ACME, "client:who"))
        await asyncio.sleep(0)
        assert principal.may_on(P.READ, "topic", "x7-9")
        await asyncio.sleep(0)
        assert not principal.may_on(P.MANAGE, "topic", "x")
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


@given(
    st.lists(
        st.lists(st.from_regex(r"(client|issuer):[ab*#]{1,5}", fullmatch=True), max_size=4),
        max_size=4,
    ),
    st.from_regex(r"(client|issuer):[ab#]{1,5}", fullmatch=True),
)
async def test_the_index_finds_what_going_through_all_members_finds(
    members: list[list[str]], subject: str
) -> None:
    policies = [policy("viewer", each, ["*"], f"p{i}") for i, each in enumerate(members)]
    found = await PolicyBook(Policies(*policies)).naming(ACME, subject)
    assert found == tuple(p for p in policies if any(is_member(m, subject) for m in p.members))
