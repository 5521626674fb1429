"""A `packetboat up` that is lost with its directory, and made again of a backup."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import requests

from tests.e2e.installation import Installation
from tests.e2e.test_up import make_topic, publish, pull_all

TOTAL, ACKED = 25, 5


def packetboat(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "gateway", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{arguments}:\n{done.stdout}{done.stderr}"


def pulled(installation: Installation, http: requests.Session, count: int) -> list[dict[str, str]]:
    answer = http.get(
        f"{installation.url}/subscriptions/reader/messages",
        params={"max_messages": count, "min_messages": count, "wait_seconds": 20},
    )
    answer.raise_for_status()
    messages: list[dict[str, str]] = answer.json()["messages"]
    return messages


def test_an_installation_is_made_again_of_a_backup(fresh: Installation, tmp_path: Path) -> None:
    """Unacked messages come again under their ids, acked messages do not, and new messages
    come as well.
    """
    lost = fresh.start()
    vault, secrets = tmp_path / "vault", tmp_path / "state.json"
    http = make_topic(lost)
    ids = [publish(lost, http, f"message {number}") for number in range(TOTAL)]
    done = pulled(lost, http, ACKED)
    ack_ids = [message["ack_id"] for message in done]
    acks = f"{lost.url}/subscriptions/reader/ack"
    http.post(acks, json={"ack_ids": ack_ids}).raise_for_status()
    packetboat("backup", "take", vault, "--data-dir", lost.directory)
    shutil.copy(lost.directory / "state.json", secrets)
    lost.stop()
    shutil.rmtree(lost.directory)

    again = Installation(tmp_path / "again")
    packetboat(
        "restore", "installation", vault, "--data-dir", again.directory, "--secrets", secrets
    )
    with again.started():
        http = again.session()
        ids.append(publish(again, http, "after the restore"))
        left = set(ids) - {message["message_id"] for message in done}
        assert set(pull_all(again, http, len(left))) == left, again.logs()
