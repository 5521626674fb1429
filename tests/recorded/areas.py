"""The scenarios by area. Each sends its requests in a tenant of its own, in any order of areas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.recorded.client import Client
from tests.recorded.scenarios.locks import locks
from tests.recorded.scenarios.publish import publish
from tests.recorded.scenarios.schedules import schedules
from tests.recorded.scenarios.schemas import schemas
from tests.recorded.scenarios.topics import topics

SCENARIOS: Mapping[str, Callable[[Client], None]] = {
    "locks": locks,
    "publish": publish,
    "schedules": schedules,
    "schemas": schemas,
    "topics": topics,
}
