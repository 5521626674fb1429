"""Row 26 of the fault matrix with real sockets: no packet goes where none may."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WAYS = (("unshare", "--net"), ("unshare", "--user", "--map-root-user", "--net"))
PROBE = "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)"


def namespace() -> tuple[str, ...]:
    """Return the command for a program in a network of its own; skip if this machine allows
    none.
    """
    if not shutil.which("unshare") or not shutil.which("ip"):
        pytest.skip("NOT TESTED: packets of egress; needs unshare and ip")
    said = ""
    for way in WAYS:
        ran = subprocess.run(
            [*way, sys.executable, "-c", PROBE], capture_output=True, text=True, check=False
        )
        if ran.returncode == 0:
            return way
        said = ran.stderr.strip()
    pytest.skip(f"NOT TESTED: packets of egress; no network namespace here: {said}")


def test_no_packet_goes_where_none_may() -> None:
    ran = subprocess.run(
        [*namespace(), sys.executable, "-m", "tests.security.egress_namespace"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    for address in ("169.254.169.254", "64:ff9b::a9fe:a9fe"):
        assert found["control"]["packets"][address] > 0, "the counter counts nothing"
        assert found["control"]["connections"][address] == 1
    assert found["denied_packets"] == {}
    assert found["denied_connections"] == {}
    outcomes = found["outcomes"]
    assert (outcomes.pop("allowed"), outcomes.pop("proxies")) == ("200", "200")
    assert outcomes.pop("redirect") == "302"
    public = {name for name in outcomes if name.startswith("rebound, public")}
    assert {outcomes.pop(name) for name in public} == {"tls"}, "no certificate of that name"
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "denied"} == {}
    assert len(outcomes) >= 100
