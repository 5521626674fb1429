"""`packetboat serve` before it serves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rich.markup
import typer
from typer.testing import CliRunner

from gateway.command import ONLY_LINUX, app
from harness.fork_server import run_forked
from harness.seeded_postgres import free_port

AT_THE_FORK = """
import os, sys
os.fork = lambda: os._exit(3 if "prometheus_client" in sys.modules else 4)
from gateway.command import main
main()
"""


def settings(**more: str) -> dict[str, str]:
    """Return the settings of a server whose Postgres and store do not exist."""
    own = {
        "PACKETBOAT_DATABASE_URL": f"postgresql://nobody@127.0.0.1:{free_port()}/none",
        "PACKETBOAT_STORE_NODES": f"1=127.0.0.1:{free_port()}",
        "PACKETBOAT_STORE_SECRET": "ab" * 32,
        "PACKETBOAT_ACK_SECRET": "cd" * 32,
        "PACKETBOAT_SEAL_KEYS": "a:" + "ef" * 32,
        "PACKETBOAT_PORT": str(free_port()),
    }
    return os.environ | own | more


def test_help_is_shown_in_full() -> None:
    """Rich takes a word in brackets, such as `[default: .packetboat]`, for markup."""
    waiting: list[Any] = [typer.main.get_command(app)]
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        for text in (command.help, *(getattr(each, "help", None) for each in command.params)):
            assert rich.markup.render(text or "").plain == (text or "")


def test_workers_are_forked_before_metrics_are_made() -> None:
    """Metrics that were counted before their directory was set were missing; the page was
    empty.
    """
    command = [sys.executable, "-c", AT_THE_FORK, "serve", "--role", "publish", "--workers", "2"]
    assert subprocess.run(command, env=settings(), timeout=120, check=False).returncode == 4


def test_up_on_another_system_says_what_to_run_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    ended = CliRunner().invoke(app, ["up"])
    assert ended.exit_code == 2
    assert ended.stderr == f"packetboat: {ONLY_LINUX}\n"
    assert "make up-container" in ONLY_LINUX


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    environment = settings(
        PACKETBOAT_PEER_TLS="require",
        PACKETBOAT_PEER_TLS_CA=str(tmp_path / "ca.pem"),
        PACKETBOAT_PEER_TLS_CERT=str(tmp_path / "cert.pem"),
        PACKETBOAT_PEER_TLS_KEY=str(tmp_path / "key.pem"),
    )
    done = run_forked("gateway", ["serve"], env=environment, timeout_s=120)
    assert done.returncode == 2, done.stderr
    assert str(tmp_path) in done.stderr
