"""Every request of the scenarios is answered as recorded."""

from __future__ import annotations

import pytest

from tests.e2e.installation import Installation
from tests.recorded import records
from tests.recorded.areas import SCENARIOS


@pytest.mark.parametrize("area", SCENARIOS)
def test_the_api_answers_as_recorded(area: str, running: Installation) -> None:
    difference = records.difference(records.take(area, running))
    assert not difference, (
        f"{difference}\n\nIf that is meant, record it: python -m tests.recorded --write {area}"
    )
