"""Settings that do not fit: `packetboat up` names each of them, and starts nothing."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.environment import SettingsError
from gateway.up import checks, data_dir
from gateway.up.data_dir import Claims, PortTaken, choose_ports, free_port, is_free
from harness.fork_server import run_forked

ROOT = Path(__file__).parents[3]
ELSEWHERE = "192.0.2.1"
"""An address kept for documentation: no machine's."""

WRONG = [
    ("PACKETBOAT_PORT", "http", "not a whole number"),
    ("PACKETBOAT_PORT", "70000", "must be from 0 to 65535"),
    ("PACKETBOAT_PORT", "-1", "must be from 0 to 65535"),
    ("PACKETBOAT_PROT", "8080", "did you mean PACKETBOAT_PORT?"),
    ("PACKETBOAT_STORE_SEGMENTS_BYTES", "1", "did you mean PACKETBOAT_STORE_SEGMENT_BYTES?"),
    ("PACKETBOAT_WHATEVER", "1", "there is no such setting; docs/settings.md"),
    ("PACKETBOAT_HOST", ELSEWHERE, "not an address of this machine"),
    ("PACKETBOAT_HOST", "2001:db8::1", "not an address of this machine"),
    ("PACKETBOAT_HOST", "no such host", "no host of this name is known"),
    ("PACKETBOAT_DATA_DIR", "/dev/null", "a file is in its place"),
    ("PACKETBOAT_DATA_DIR", "/proc/packetboat", "it can't be written"),
    ("PACKETBOAT_LOG_LEVEL", "loud", "one of debug, info, warning, error"),
    ("PACKETBOAT_EXPORTS", "maybe", "1 or 0, true or false"),
    ("PACKETBOAT_ROLE", "boss", "one of all, gateway, publish, subscribe, scheduler"),
    ("PACKETBOAT_ROLE", "publish", "leave it out, or run `packetboat serve`"),
    ("PACKETBOAT_HTTP_LISTENER", "nginx", "one of own, hypercorn"),
    ("PACKETBOAT_WORKERS", "0", "must be at least 1"),
    ("PACKETBOAT_DRAIN_S", "soon", "not a number"),
    ("PACKETBOAT_TOKEN_SECONDS", "59", "must be from 60 to 86400"),
    ("PACKETBOAT_MAX_LOOP_LAG_S", "nan", "must be from 0.005 to 10"),
    ("PACKETBOAT_MAX_REQUEST_BYTES", "1", "must be at least 16777216"),
    ("PACKETBOAT_ISSUER", "mq.example", "a base URL"),
    ("PACKETBOAT_SIGNING_ALGORITHM", "none", "RS256 or ES256"),
    ("PACKETBOAT_EGRESS_PROXY", "proxy:3128", "http://host:port"),
    ("PACKETBOAT_EGRESS_PORTS", "443,x", "ports are numbers from 1 to 65535"),
    ("PACKETBOAT_DATABASE_URL", "mysql://127.0.0.1/x", "must be postgresql://user:password@"),
    ("PACKETBOAT_DATABASE_DEADLINE_S", "never", "not a number"),
    ("PACKETBOAT_DATABASE_DATA_CONNECTIONS", "0", "must be at least 1"),
    ("PACKETBOAT_PUBLISH_TIMEOUT_S", "0", "must be above 0"),
    ("PACKETBOAT_SUBSCRIBE_CACHE_BYTES", "256MB", "not a whole number"),
    ("PACKETBOAT_SUBSCRIBE_TRACE_FILE", "/nowhere/trace", "there is no such directory"),
    ("PACKETBOAT_SCHEDULER_WINDOW_S", "-1", "must be above 0"),
    ("PACKETBOAT_QUOTA_TOPICS", "-1", "must be at least 0"),
    ("PACKETBOAT_STORE_SEGMENT_BYTES", "1", "must be from 8192 to"),
    ("PACKETBOAT_STORE_DISK_RESERVE_BYTES", "1 GB", "not a whole number"),
    ("PACKETBOAT_STORE_LISTEN", "127.0.0.1:9", "for one; leave it out"),
    ("PACKETBOAT_STORE_JOIN", "1", "for one; leave it out"),
    ("PACKETBOAT_STORE_METRICS_PORT", "9101", "for one; leave it out"),
    ("PACKETBOAT_PEER_TLS", "on", "one of off, accept, prefer, require"),
    ("PACKETBOAT_PEER_TLS", "require", "is needed with PACKETBOAT_PEER_TLS=require"),
]


def told(environment: dict[str, str], where: Path, **given: object) -> tuple[str, ...]:
    """Return the lines that a user reads."""
    place = {"PACKETBOAT_DATA_DIR": str(where / "data")}
    with pytest.raises(SettingsError) as refused:
        checks.settings_of(place | environment, **given)
    return refused.value.faults


@pytest.mark.parametrize(("name", "value", "text"), WRONG, ids=lambda each: str(each)[:40])
def test_what_does_not_fit_is_named(name: str, value: str, text: str, tmp_path: Path) -> None:
    lines = told({name: value}, tmp_path)
    assert any(line.startswith(name) and text in line for line in lines), lines
    assert list((tmp_path / "data").glob("*")) == []


def test_all_that_does_not_fit_is_told_at_once(tmp_path: Path) -> None:
    wrong = {
        "PACKETBOAT_PORT": "x",
        "PACKETBOAT_MAX_JOBS": "0",
        "PACKETBOAT_PUBLISH_STALL_S": "y",
        "PACKETBOAT_STORE_GROUPS": "z",
        "PACKETBOAT_NONE": "",
    }
    lines = told(wrong, tmp_path)
    assert sorted(re.split(r"[=:]", line)[0] for line in lines) == sorted(wrong)
    assert not (tmp_path / "data").exists()


def test_options_are_checked_like_variables(tmp_path: Path) -> None:
    assert told({}, tmp_path, port=70_000) == (
        "--port 70000 (PACKETBOAT_PORT): must be from 0 to 65535",
    )
    assert "(--host): not an address of this machine" in told({}, tmp_path, host=ELSEWHERE)[0]
    # An option wins, so what it replaces is not looked at.
    given = {"PACKETBOAT_DATA_DIR": str(tmp_path), "PACKETBOAT_HOST": ELSEWHERE}
    assert checks.settings_of(given, host="127.0.0.1", port=0).host == "127.0.0.1"


def test_files_of_tls_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    files = {
        f"PACKETBOAT_PEER_TLS_{name.upper()}": str(tmp_path / f"{name}.pem")
        for name in ("ca", "cert", "key")
    }
    lines = told(files | {"PACKETBOAT_PEER_TLS": "require"}, tmp_path)
    assert [line.split("=")[0] for line in lines] == [
        "PACKETBOAT_PEER_TLS_CERT",
        "PACKETBOAT_PEER_TLS_KEY",
    ]


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    wrong = {"PACKETBOAT_DEV_TOKEN_SHA256": "hush", "PACKETBOAT_DATABASE_URL": "mysql://u:hush@h/d"}
    lines = told(wrong, tmp_path)
    assert len(lines) == 2
    assert "hush" not in "".join(lines)


def test_every_setting_in_the_docs_is_known(tmp_path: Path) -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(PACKETBOAT_[A-Z0-9_]+)`", page))
    assert len(names) > 100
    lines = told(dict.fromkeys(names, "?"), tmp_path)
    assert [line for line in lines if "no such setting" in line] == []


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        yield busy.getsockname()[1]


def up(tmp_path: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PACKETBOAT_")}
    command = ["up", "--data-dir", str(tmp_path / "data"), *arguments]
    return run_forked("gateway", command, env=kept | settings, timeout_s=60)


def test_the_command_ends_at_once_with_a_line_for_each(tmp_path: Path, busy_port: int) -> None:
    done = up(tmp_path, "--host", ELSEWHERE, PACKETBOAT_DRAIN_S="x", PACKETBOAT_PROT="1")
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert [line.split("=")[0].split(":")[1].strip() for line in lines] == [
        "PACKETBOAT_DRAIN_S",
        "PACKETBOAT_PROT",
    ]
    assert not (tmp_path / "data").exists()
    taken = up(tmp_path, "--port", str(busy_port))
    assert taken.returncode == 2
    assert re.fullmatch(
        rf"packetboat: PACKETBOAT_PORT={busy_port} \(--port\): in use at 127.0.0.1; .*\n",
        taken.stderr,
    )
    assert list((tmp_path / "data").iterdir()) == []


def test_two_that_start_at_once_choose_different_ports() -> None:
    """Neither listens yet when the other looks."""
    one, other = Claims(), Claims()
    first = choose_ports("127.0.0.1", None, None, one)
    second = choose_ports("127.0.0.1", None, None, other)
    numbers = [[each.http, *each.store, each.postgres] for each in (first, second)]
    assert set(numbers[0]).isdisjoint(numbers[1])
    # A second attempt of the same supervisor keeps its own.
    assert choose_ports("127.0.0.1", None, first, one) == first
    with pytest.raises(PortTaken, match="PACKETBOAT_PORT"):
        choose_ports("127.0.0.1", first.http, None, other)
    one.keep_only(())
    other.keep_only(())


def test_the_search_for_a_free_port_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_free(ELSEWHERE, 20_000)
    monkeypatch.setattr(data_dir, "is_free", lambda host, port: False)
    with pytest.raises(PortTaken, match="PACKETBOAT_HOST"):
        free_port(ELSEWHERE)
