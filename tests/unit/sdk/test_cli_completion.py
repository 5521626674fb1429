"""Completion: names of commands without the server, names of things from it, never an error."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

PROGRAM = "from packetboat.cli.main import main; main()"


def complete(words: str, **environment: str) -> list[str]:
    """Return what bash would offer for the last word."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PACKETBOAT_")}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=kept
        | {"_PACKETBOAT_COMPLETE": "complete_bash", "COMP_WORDS": words}
        | {"COMP_CWORD": str(len(words.split(" ")) - 1)}
        | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stderr == ""
    return ran.stdout.split()


@pytest.fixture
def server() -> str:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"topics": [{"name": "orders"}, {"name": "other"}], "next_page_token": null}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    made = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=made.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{made.server_port}"


def test_commands() -> None:
    assert complete("packetboat sch") == ["schemas", "schedules"]
    assert complete("packetboat dead-letters re") == ["redrive", "redrives"]


def test_options() -> None:
    assert "--from-start" in complete("packetboat tail --fr")
    assert complete("packetboat topics list --output js") == ["json"]


def test_names_of_topics(server: str) -> None:
    assert complete("packetboat publish or", PACKETBOAT_URL=server) == ["orders"]


def test_silent_where_nobody_answers() -> None:
    assert complete("packetboat publish or", PACKETBOAT_URL="http://127.0.0.1:9") == []


def test_silent_where_nothing_is_right(tmp_path: Path) -> None:
    config = tmp_path / "packetboat" / "config.toml"
    config.parent.mkdir()
    config.write_text("]")
    assert complete("packetboat publish or", XDG_CONFIG_HOME=str(tmp_path)) == []


def test_the_script_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, "--show-completion", "bash"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_PACKETBOAT_COMPLETE=complete_bash" in ran.stdout
