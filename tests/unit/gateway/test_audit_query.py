"""Test which entries of the audit log a query asks for."""

from __future__ import annotations

import pytest

from edge.parameters import Query
from edge.problem import Problem
from gateway.tenancy.audit import filter_of


def asked(query: bytes) -> Query:
    return Query({"query_string": query})


@pytest.mark.parametrize(
    ("query", "oldest_first"), [(b"", False), (b"order=newest", False), (b"order=oldest", True)]
)
def test_the_newest_come_first_unless_the_oldest_are_asked_for(
    query: bytes, oldest_first: bool
) -> None:
    assert filter_of(asked(query)).oldest_first is oldest_first


@pytest.mark.parametrize("query", [b"order=", b"order=newest%20", b"order=NEWEST"])
def test_an_order_that_is_not_in_the_contract_is_refused(query: bytes) -> None:
    with pytest.raises(Problem) as refused:
        filter_of(asked(query))
    assert refused.value.status == 400
    assert "order" in refused.value.detail
