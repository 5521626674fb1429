"""Test which operations go first under too much load."""

from __future__ import annotations

import pytest

import openapi
from gateway.admission import kinds
from gateway.admission.kinds import Urgency, kind_of

OF_PARTITION = "/topics/{topic}/partitions/{partition}/messages"


def operations() -> set[str]:
    methods = {"get", "post", "put", "patch", "delete"}
    return {
        f"{method.upper()} {path}"
        for path, item in openapi.document()["paths"].items()
        for method in methods & item.keys()
    }


def test_all_that_is_named_is_there() -> None:
    """A path that was renamed would be as urgent as any other, and nobody would notice."""
    named = kinds._SETTLING | kinds._WAITING | kinds._DEFERRABLE | kinds.PUBLISHES
    assert named - operations() == set()


@pytest.mark.parametrize(
    "live",
    [
        *("POST /topics/{topic}/messages", "POST /topics/{topic}/messages:batch"),
        *("GET /subscriptions/{name}/messages", "POST /subscriptions/{name}:pull"),
        *("GET /subscriptions/{name}/messages:stream", "POST /subscriptions/{name}/ack"),
    ],
)
def test_replays_go_after_what_is_live(live: str) -> None:
    assert kind_of("GET", OF_PARTITION).urgency is Urgency.DEFERRABLE
    assert kind_of(*live.split()).urgency < Urgency.DEFERRABLE


def test_a_run_of_an_export_is_kept_and_ended_before_another_begins() -> None:
    assert kind_of("POST", "/export_runs/{uid}:renew").urgency is Urgency.SETTLING
    assert kind_of("POST", "/export_runs/{uid}:finish").urgency is Urgency.SETTLING
    assert kind_of("POST", "/exports/{name}:run").urgency is Urgency.DEFERRABLE
    assert kind_of("POST", "/export_runs:claim").waits
