"""`packetboat serve` before it serves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import free_port

FORKED_FROM = (
    "import sys, gateway.command, gateway.workers, peering.settings;"
    "sys.exit('prometheus_client' in sys.modules)"
)


def test_workers_are_forked_before_metrics_are_made() -> None:
    """What counted before its directory was set was on nobody's page: it was empty."""
    assert subprocess.run([sys.executable, "-c", FORKED_FROM], check=False).returncode == 0


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    settings = {
        "PACKETBOAT_DATABASE_URL": f"postgresql://nobody@127.0.0.1:{free_port()}/none",
        "PACKETBOAT_STORE_NODES": f"1=127.0.0.1:{free_port()}",
        "PACKETBOAT_STORE_SECRET": "ab" * 32,
        "PACKETBOAT_ACK_SECRET": "cd" * 32,
        "PACKETBOAT_SEAL_KEYS": "a:" + "ef" * 32,
        "PACKETBOAT_PEER_TLS": "require",
        "PACKETBOAT_PEER_TLS_CA": str(missing),
        "PACKETBOAT_PEER_TLS_CERT": str(tmp_path / "cert.pem"),
        "PACKETBOAT_PEER_TLS_KEY": str(tmp_path / "key.pem"),
    }
    command = [sys.executable, "-m", "gateway", "serve", "--port", str(free_port())]
    done = subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2, done.stderr
    assert str(tmp_path) in done.stderr
