"""Test the settings that `packetboat up` gives to the runner of exports."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gateway.up import export_runner
from gateway.up.data_dir import DataDir


def test_its_lake_is_in_the_data_directory_and_the_catalog_in_postgres(tmp_path: Path) -> None:
    url = "postgresql://postgres:p@127.0.0.1:8094/packetboat"
    assert msgspec.json.decode(export_runner.lakes(DataDir(tmp_path), url)) == [
        {
            "name": "default",
            "warehouse": str(tmp_path / "lake"),
            "catalog": {
                "type": "sql",
                "uri": "postgresql+psycopg://postgres:p@127.0.0.1:8094/packetboat",
            },
        }
    ]


def test_it_gets_its_own_credential_and_no_other_secret(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path)
    data_dir.runner_file.write_text(
        "export PACKETBOAT_CLIENT_ID=pbc_1\nexport PACKETBOAT_CLIENT_SECRET=pbs_2\n"
    )
    inherited = {
        "PATH": "/bin",
        "PACKETBOAT_TOKEN": "t",
        "PACKETBOAT_DATABASE_URL": "postgresql://u:p@h/d",
        "PACKETBOAT_SEAL_KEYS": "a:00",
        "PACKETBOAT_STORE_SECRET": "00",
        "PACKETBOAT_RUNNER_CONCURRENCY": "2",
        "PACKETBOAT_RUNNER_DRAIN_SECONDS": "60",
        "PACKETBOAT_LOG_LEVEL": "debug",
        "PACKETBOAT_LAKES": "/etc/lakes.toml",
    }
    assert export_runner.environment(inherited, data_dir, "http://127.0.0.1:8080") == {
        "PATH": "/bin",
        "PACKETBOAT_URL": "http://127.0.0.1:8080",
        "PACKETBOAT_CLIENT_ID": "pbc_1",
        "PACKETBOAT_CLIENT_SECRET": "pbs_2",
        "PACKETBOAT_LAKES": "/etc/lakes.toml",
        "PACKETBOAT_LOG_LEVEL": "debug",
        "PACKETBOAT_RUNNER_CONCURRENCY": "2",
        "PACKETBOAT_RUNNER_DRAIN_SECONDS": "60",
        "PACKETBOAT_RUNNER_GRACE_SECONDS": "3",
        "PACKETBOAT_RUNNER_STATE_DIR": str(tmp_path / "exports"),
    }
