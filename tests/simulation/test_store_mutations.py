"""Every seeded bug of the store is noticed by one of CI's seeds."""

from __future__ import annotations

import pytest

from tests.simulation.misfits import misfit
from tests.simulation.store.breaking import first_failure
from tests.simulation.store.mutations import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_every_mutation_is_caught(mutation: Mutation) -> None:
    found = first_failure(mutation, 0)
    assert found is not None, "nothing noticed"
    assert misfit(found.failure) is None, found.failure
