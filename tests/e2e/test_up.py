"""`packetboat up` as its README describes it: stop, start again, die in every way."""

from __future__ import annotations

import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import requests

from gateway import descriptors
from gateway.configuration.settings import ServerSettings
from tests.e2e.installation import Installation


def wait_until_gone(installation: Installation, seconds: float = 15.0) -> dict[int, str]:
    deadline_s = time.monotonic() + seconds
    while (left := installation.processes()) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return left


def make_topic(installation: Installation) -> requests.Session:
    http = installation.session()
    http.post(f"{installation.url}/topics", json={"name": "kept"}).raise_for_status()
    http.post(
        f"{installation.url}/topics/kept/subscriptions",
        json={"name": "reader", "start": "earliest"},
    ).raise_for_status()
    return http


def publish(installation: Installation, http: requests.Session, text: str) -> str:
    answer = http.post(f"{installation.url}/topics/kept/messages", data=text.encode())
    assert answer.status_code == 201, answer.text
    return str(answer.json()["message_id"])


def pull_all(installation: Installation, http: requests.Session, count: int) -> dict[str, int]:
    """Return the attempt of each message id, of at least `count` messages or those that
    arrive in a while.
    """
    found: dict[str, int] = {}
    deadline_s = time.monotonic() + 15
    while len(found) < count and time.monotonic() < deadline_s:
        answer = http.get(
            f"{installation.url}/subscriptions/reader/messages",
            params={"max_messages": 100, "wait_seconds": 1},
        )
        assert answer.status_code == 200, answer.text
        found |= {m["message_id"]: m["attempt"] for m in answer.json()["messages"]}
    return found


def pids_of(installation: Installation, command: str) -> list[int]:
    """Return the processes that run this command of the server."""
    return [
        pid
        for pid, line in installation.processes().items()
        if re.fullmatch(rf"packetboat {command}", line)
    ]


def test_ctrl_c_leaves_nothing_and_a_second_start_finds_the_messages(fresh: Installation) -> None:
    fresh.seeded = False
    fresh.program = ("-m", "gateway")
    installation = fresh.start()
    http = make_topic(installation)
    ids = [publish(installation, http, f"message {number}") for number in range(20)]
    url, token = installation.url, installation.token
    assert len(installation.processes()) >= 6
    files = [path for path in installation.directory.rglob("*") if path.is_file()]
    assert sum(path.stat().st_blocks * 512 for path in files) <= 200_000_000
    assert installation.stop(signal.SIGINT) == 0
    assert wait_until_gone(installation) == {}

    installation.start()
    assert (installation.url, installation.token) == (url, token)
    assert set(pull_all(installation, http, 20)) == set(ids)
    for name in ("dev-token", "client.env", "state.json"):
        assert stat.S_IMODE((installation.directory / name).stat().st_mode) == 0o600
    for name in ("logs", "node-1"):
        assert stat.S_IMODE((installation.directory / name).stat().st_mode) == 0o700
    assert installation.stop(signal.SIGTERM) == 0
    assert wait_until_gone(installation) == {}


def test_kill_9_of_the_supervisor_ends_everything_and_loses_nothing(fresh: Installation) -> None:
    installation = fresh.start()
    http = make_topic(installation)
    ids = [publish(installation, http, f"message {number}") for number in range(20)]
    leased = pull_all(installation, http, 20)
    acked = ids[:5]
    answer = http.post(
        f"{installation.url}/subscriptions/reader/ack", json={"message_ids": acked}
    ).json()
    assert answer["acked"] == 5
    assert set(leased) == set(ids)
    installation.stop(signal.SIGKILL)
    assert wait_until_gone(installation) == {}

    installation.start()
    assert set(pull_all(installation, http, 15)) == set(ids) - set(acked)
    installation.stop()
    assert wait_until_gone(installation) == {}


def test_a_dead_child_is_started_again(fresh: Installation) -> None:
    installation = fresh.start()
    try:
        http = make_topic(installation)
        for word in ("store-node", "serve"):
            victims = pids_of(installation, word)
            assert victims, word
            os.kill(victims[0], signal.SIGKILL)
            deadline_s = time.monotonic() + 30
            while time.monotonic() < deadline_s:
                try:
                    ready = requests.get(f"{installation.url}/readyz", timeout=5).status_code == 200
                except requests.RequestException:
                    ready = False
                now = pids_of(installation, word)
                if ready and victims[0] not in now and len(now) == len(victims):
                    break
                time.sleep(0.1)
            publish(installation, http, f"after the death of {word}")
    finally:
        installation.stop()
    assert wait_until_gone(installation) == {}


def test_processes_may_open_as_many_descriptors_as_their_hard_limit(fresh: Installation) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))  # inherited by `up`
    try:
        fresh.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    serving = [*pids_of(fresh, "store-node"), *pids_of(fresh, "serve")]
    assert len(serving) == 4
    for pid in serving:
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) == (hard, hard)
    log = (fresh.directory / "logs" / "server.log").read_text()
    needed = ServerSettings().max_connections + descriptors.BESIDE_CONNECTIONS
    too_few = hard != resource.RLIM_INFINITY and hard < needed
    assert ("too few open files" in log) is too_few
    fresh.stop()


def test_a_second_up_on_the_same_directory_is_refused(running: Installation) -> None:
    second = subprocess.run(
        [sys.executable, "-m", "gateway", "up", "--data-dir", str(running.directory)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ},
    )
    assert second.returncode == 1
    assert "in use by process" in second.stderr


def test_the_printed_lines_work_as_pasted(running: Installation, tmp_path: Path) -> None:
    lines = running.output[running.output.index("Make a topic") :]
    script = lines[lines.index("curl ") : lines.index("In another terminal")]
    done = subprocess.run(
        ["bash", "-euc", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"acked":1' in done.stdout.replace(" ", "")
    assert "hello, world" in done.stdout
