"""The listener speaks HTTP/2 as well as Hypercorn alone, judged by h2spec."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.abuse import h2spec
from tests.e2e.installation import Installation
from tests.go_programs import NotHere


def test_h2spec_finds_nothing_that_it_does_not_find_in_hypercorn(running: Installation) -> None:
    parts = urlsplit(running.url)
    assert parts.hostname is not None
    assert parts.port is not None
    try:
        found = h2spec.worse((parts.hostname, parts.port))
    except NotHere as error:
        pytest.skip(f"HTTP/2 is not compared with Hypercorn's: {error}")
    assert found == []
