"""Test which operations are sent again after an unknown outcome."""

from __future__ import annotations

import pytest
from packetboat.calls import Call

from tests.unit.sdk.operations import ASKED, recorded

READ = [name for name, asks in ASKED.items() if isinstance(recorded(asks[0]), Call)]
ONCE = {
    "createTopic",
    "movePartition",
    "deleteTopic",
    "createSubscription",
    "deleteSubscription",
    "seek",
    "addSkipRule",
    "testPushEndpoint",
    "replayToEndpoint",
    "createSigningSecret",
    "deleteSigningSecret",
    "createSnapshot",
    "deleteSnapshot",
    "redriveDeadLetters",
    "resumeParkedKey",
    "skipParkedKey",
    "createSchedule",
    "deleteSchedule",
    "runSchedule",
    "createSchema",
    "deleteSchema",
    "acquireLock",
    "deleteLock",
    "createTenant",
    "deleteTenant",
    "createClient",
    "putClient",
    "deleteClient",
    "addClientSecret",
    "removeClientSecret",
    "createKey",
    "putKey",
    "putTenant",
    "deleteKey",
    "rotateKey",
    "createPolicy",
    "deletePolicy",
    "createIssuer",
    "deleteIssuer",
    "createExport",
    "deleteExport",
    "claimExportRun",
    "createJob",
    "deleteJob",
    "deletePool",
    "pull",
    "claimTasks",
    "publish",
    "readyz",
}
"""The operations that are not sent again after an unknown outcome.

Done twice they would do more, or answer something else than the first time, such as a secret that
is told once.
"""


def test_what_is_sent_again_after_an_unknown_outcome() -> None:
    unsafe = set()
    for name in READ:
        plain = [recorded(ask) for ask in ASKED[name]]
        plain = [call for call in plain if "If-Match" not in call.request.headers]
        if plain and isinstance(plain[0], Call) and not plain[0].safe:
            unsafe.add(name)
    assert unsafe == ONCE


@pytest.mark.parametrize("name", READ)
def test_what_must_match_is_sent_once(name: str) -> None:
    """Sent again it would be refused, although it was done."""
    for ask in ASKED[name]:
        call = recorded(ask)
        if "If-Match" in call.request.headers:
            assert isinstance(call, Call)
            assert not call.safe


def test_a_publish_with_a_key_and_an_acquire_with_an_id_are_safe() -> None:
    keyed, held = recorded(ASKED["publish"][1]), recorded(ASKED["acquireLock"][1])
    assert isinstance(keyed, Call)
    assert isinstance(held, Call)
    assert (keyed.safe, keyed.idempotency_key, held.safe) == (True, "i", True)
