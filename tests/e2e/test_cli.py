"""The `packetboat` command as people and scripts run it: processes, pipes, a real server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from harness.fork_server import Forked, run_forked
from tests.e2e.installation import Installation

PROGRAM = "packetboat.cli.main:main"
DEADLINE_S = 60.0


class Shell:
    """A directory, and an environment that knows the server."""

    def __init__(self, running: Installation, home: Path) -> None:
        self.running = running
        self.home = home
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PACKETBOAT_")}
        self.environment = kept | {
            "PACKETBOAT_URL": running.url,
            "PACKETBOAT_TOKEN": running.token,
            "XDG_CONFIG_HOME": str(home / "config"),
        }
        self.http = running.session()

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        return Forked(
            PROGRAM,
            arguments,
            cwd=self.home,
            env=self.environment,
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def run(
        self, *arguments: str, code: int = 0, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        ran = run_forked(
            PROGRAM,
            arguments,
            cwd=self.home,
            env=self.environment,
            input=stdin,
            timeout_s=DEADLINE_S,
        )
        assert ran.returncode == code, f"{arguments}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        return ran

    def json(self, *arguments: str, stdin: str = "") -> Any:
        return json.loads(self.run(*arguments, "-o", "json", stdin=stdin).stdout)

    def topic(self) -> str:
        name = f"cli-{uuid.uuid4().hex[:8]}"
        retention = {"mode": "retain", "seconds": 3600}
        body = {"name": name, "partitions": 2, "retention": retention}
        assert self.http.post(f"{self.running.url}/topics", json=body).status_code == 201
        return name

    def subscription(self, topic: str, **settings: Any) -> str:
        body = {"name": topic, "start": "earliest", **settings}
        url = f"{self.running.url}/topics/{topic}/subscriptions"
        assert self.http.post(url, json=body).status_code == 201
        return topic

    def subscriptions(self, topic: str) -> list[str]:
        answer = self.http.get(f"{self.running.url}/topics/{topic}/subscriptions").json()
        return [each["name"] for each in answer["subscriptions"]]

    def stored(self, topic: str) -> list[str]:
        """Return the bodies of all stored messages."""
        found: list[str] = []
        for partition in (0, 1):
            offset = 0
            while True:
                answer = self.http.get(
                    f"{self.running.url}/topics/{topic}/partitions/{partition}/messages",
                    params={"offset": offset, "max_messages": 1000},
                ).json()
                found += [each["data"] for each in answer["messages"]]
                offset = answer["next_offset"]
                if offset >= answer["end_offset"]:
                    break
        return found


@pytest.fixture
def shell(running: Installation, tmp_path: Path) -> Shell:
    return Shell(running, tmp_path)


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not in {DEADLINE_S} s: {what}"
        time.sleep(0.05)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, err


def test_what_a_pipe_brings_is_shown_by_tail(shell: Shell) -> None:
    """As it comes: the pipe is still open when the first messages are shown."""
    topic = shell.topic()
    tail = shell.start("tail", topic, "--max", "3", "-o", "ndjson")
    until(lambda: shell.subscriptions(topic), "tail has its subscription")
    publish = shell.start("publish", topic, "--key", "k", stdin=subprocess.PIPE)
    assert publish.stdin is not None
    publish.stdin.write("one\ntwo\n")
    publish.stdin.flush()
    assert tail.stdout is not None
    assert [json.loads(tail.stdout.readline())["data"] for _ in range(2)] == ["one", "two"]
    publish.stdin.write("three\n")
    code, _, said = ended(publish)
    assert (code, said.partition(" in ")[0]) == (
        0,
        f"{topic}: 3 done (0 of them before), 0 refused, 0 unknown",
    )
    code, out, _ = ended(tail)
    assert (code, json.loads(out)["data"]) == (0, "three")
    assert shell.subscriptions(topic) == []


def test_tail_leaves_nothing_behind_after_ctrl_c(shell: Shell) -> None:
    topic = shell.topic()
    url = f"{shell.running.url}/topics/{topic}/messages"
    shell.http.post(url, data="one", headers={"Content-Type": "text/plain"})
    tail = shell.start("tail", topic, "--from-start", "-o", "ndjson")
    assert tail.stdout is not None
    assert json.loads(tail.stdout.readline())["data"] == "one"
    tail.send_signal(signal.SIGINT)
    assert ended(tail) == (0, "", "")
    assert shell.subscriptions(topic) == []


def test_a_publish_that_was_killed_is_resumed_without_doubles(shell: Shell) -> None:
    topic = shell.topic()
    lines = [f"line {n}" for n in range(4000)]
    (shell.home / "lines").write_text("\n".join(lines))
    arguments = ("publish", topic, "lines", "--resume-id", "r", "--batch", "50")
    first = shell.start(*arguments, "--rate", "1000")
    until(lambda: len(shell.stored(topic)) > 200, "some are stored")
    first.kill()
    ended(first)
    assert len(shell.stored(topic)) < len(lines)
    summary = shell.json(*arguments)
    assert summary["done"] == len(lines)
    assert summary["duplicates"] >= 200
    assert sorted(shell.stored(topic)) == sorted(lines)


def test_ctrl_c_says_what_was_done(shell: Shell) -> None:
    topic = shell.topic()
    (shell.home / "lines").write_text("x\n" * 100_000)
    publish = shell.start("publish", topic, "lines", "--rate", "500", "-o", "json")
    until(lambda: shell.stored(topic), "some are stored")
    publish.send_signal(signal.SIGINT)
    code, out, _ = ended(publish)
    summary = json.loads(out)
    assert code == 130
    assert summary["unknown"] == 0
    assert summary["done"] == len(shell.stored(topic)) < 100_000


def test_a_reader_that_goes_away_is_no_error_to_look_at(shell: Shell) -> None:
    topic = shell.topic()
    shell.run("publish", topic, stdin="a long line of text\n" * 20_000)
    replay = shell.start("replay", topic, "-o", "ndjson")
    assert replay.stdout is not None
    replay.stdout.readline()
    replay.stdout.close()
    assert replay.wait(DEADLINE_S) == 141
    assert replay.stderr is not None
    assert replay.stderr.read() == ""


def test_dead_letters_are_redriven(shell: Shell) -> None:
    topic = shell.topic()
    settings = {"retry": {"max_attempts": 1}, "dead_letter_topic": shell.topic()}
    name = shell.subscription(topic, **settings)
    url = shell.running.url
    for body in ("1", "2"):
        kind = {"Content-Type": "text/plain"}
        shell.http.post(f"{url}/topics/{topic}/messages", data=body, headers=kind)
    letters = f"{url}/subscriptions/{name}/dead_letters"
    while len(shell.http.get(letters).json()["dead_letters"]) < 2:
        pulled = shell.http.get(f"{url}/subscriptions/{name}/messages?wait_seconds=1").json()
        for message in pulled["messages"]:
            wanted = {"ack_id": message["ack_id"], "reason": "bad"}
            shell.http.post(f"{url}/subscriptions/{name}/reject", json=wanted)
    dry = shell.json("dead-letters", "redrive", name, "--all", "--dry-run")
    assert dry["matched"] == 2
    assert {each["reason"] for each in dry["sample"]} == {"rejected"}
    done = shell.json("dead-letters", "redrive", name, "--all")
    assert (done["state"], done["redriven"], done["failed"]) == ("done", 2, 0)
    shown = shell.run("tail", "-s", name, "--ack", "--data", "--max", "2").stdout
    assert sorted(shown.split()) == ["1", "2"]


def test_a_lock_excludes_and_goes_with_its_program(shell: Shell) -> None:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    holder = shell.start("lock", name, "--", "sh", "-c", "touch held; exec sleep 60")
    until((shell.home / "held").exists, "the program runs")
    assert "lock-held" in shell.run("lock", name, "--", "touch", "never", code=5).stderr
    assert not (shell.home / "never").exists()
    holder.send_signal(signal.SIGTERM)
    assert ended(holder)[0] == 128 + signal.SIGTERM
    assert shell.json("locks", "get", name)["held"] is False


def test_the_doctor(shell: Shell) -> None:
    found = shell.json("doctor")
    levels = {each["check"]: each["level"] for each in found}
    assert "fail" not in levels.values()
    assert {levels[check] for check in ("connection", "clock", "readiness", "credential")} == {"ok"}
    ran = shell.run("doctor", "--url", "http://127.0.0.1:9", code=1)
    assert ran.stdout.startswith("FAIL  connection")


def test_what_up_wrote_is_found_and_logins_are_kept(shell: Shell) -> None:
    (shell.home / ".packetboat").mkdir()
    shutil.copy(shell.running.directory / "client.env", shell.home / ".packetboat")
    token = shell.environment.pop("PACKETBOAT_TOKEN")
    url = shell.environment.pop("PACKETBOAT_URL")
    assert shell.json("whoami")["tenant"] == "dev"
    shutil.rmtree(shell.home / ".packetboat")
    shell.run("whoami", "--url", url, code=3)
    shell.run("login", "--url", url, "--with-token", stdin=token)
    assert shell.json("whoami")["tenant"] == "dev"


def test_a_client_made_here_logs_in(shell: Shell) -> None:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    made = shell.json("clients", "set", name)
    shell.run("policies", "set", name, "--role", "viewer", "--member", f"client:{name}")
    secret = made["client_secret"]
    login = ("login", "--url", shell.running.url, "--client-id", made["client_id"])
    shell.run(*login, "--profile", "viewer", stdin=secret)
    assert shell.json("whoami", "--profile", "viewer")["subject"] == f"client:{name}"
    ran = shell.run("topics", "create", "never", "--profile", "viewer", code=3)
    assert "403" in ran.stderr


def test_a_job_is_watched_until_it_is_done(shell: Shell) -> None:
    name, kind = f"cli-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    shell.run("api", "POST", "/jobs", "-d", json.dumps({"name": name, "map": kind, "pool": kind}))
    url = shell.running.url
    shell.http.post(f"{url}/jobs/{name}/tasks", json={"first_index": 0, "inputs": [1, 2]})
    shell.http.post(f"{url}/jobs/{name}:seal", json={"tasks": 2})
    watch = shell.start("jobs", "watch", name, "-o", "json")
    claim = {"kinds": [kind], "max_tasks": 2, "worker": "w", "wait_seconds": 5}
    tasks = shell.http.post(f"{url}/pools/{kind}:claim", json=claim).json()["tasks"]
    done = [{"lease_id": each["lease_id"], "output": each["input"]} for each in tasks]
    shell.http.post(f"{url}/tasks:complete", json={"tasks": done})
    code, out, _ = ended(watch)
    assert (code, json.loads(out)["state"]) == (0, "succeeded")
    assert [each["output"] for each in shell.json("jobs", "outputs", name)] == [1, 2]


def test_a_token_is_asked_about_and_revoked(shell: Shell) -> None:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    made = shell.json("clients", "set", name)
    client = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
    form = {"grant_type": "client_credentials", **client}
    url = f"{shell.running.url}/oauth/token"
    token = requests.post(url, data=form, timeout=DEADLINE_S).json()["access_token"]
    shell.environment |= {f"PACKETBOAT_{key.upper()}": value for key, value in client.items()}
    assert shell.json("tokens", "introspect", stdin=token)["sub"] == f"client:{name}"
    shell.run("tokens", "revoke", stdin=token)
    assert shell.run("tokens", "introspect", "-q", stdin=token, code=1).stdout == "active: false\n"


def test_signing_secrets_are_changed(shell: Shell) -> None:
    topic = shell.topic()
    name = shell.subscription(topic, type="push", push={"url": "https://example.com/hooks"})
    made = shell.json("signing-secrets", "create", name, "--old-expires-in", "3600")
    assert made["secret"].startswith("whsec_")
    listed = shell.json("signing-secrets", "list", name)
    assert listed[0]["id"] == made["id"]
    assert "secret" not in listed[0]
    shell.run("signing-secrets", "delete", name, listed[1]["id"])
    assert [each["id"] for each in shell.json("signing-secrets", "list", name)] == [made["id"]]


def test_a_partition_is_moved(shell: Shell) -> None:
    topic = shell.topic()
    here = shell.json("topics", "partitions", topic)[0]["group"]
    moved = shell.json("topics", "move", topic, "0", "--group", str(here))
    assert moved["placement"] is None
    assert "group" in shell.run("topics", "move", topic, "0", "--group", "9999", code=1).stderr
