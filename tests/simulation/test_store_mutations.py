"""Every seeded bug of the store is noticed by one of CI's seeds."""

from __future__ import annotations

import pytest

from tests.simulation.store.breaking import first_failure
from tests.simulation.store.mutations import MUTATIONS, Mutation
from tests.simulation.store.runner import run

CAUGHT_BY: dict[str, int] = {}
"""Seeds that catch a mutation which few seeds catch: they are tried before all others."""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_is_caught(mutation: Mutation) -> None:
    name = mutation.__name__
    if name in CAUGHT_BY:
        with mutation():
            if run(CAUGHT_BY[name]).failure:
                return
    assert first_failure(mutation, 0) is not None, f"{name}: nothing noticed"
