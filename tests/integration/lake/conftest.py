"""A catalog of its own in Postgres for each test, and an S3 for all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from spark_exports.order import LakeSettings
from tests.unit.spark_exports.lake.lake_support import without_fsync


def catalog_in(postgres_url: str, schema: str = "lake") -> dict[str, str]:
    """Return the properties of a catalog in a schema of this server."""
    url = make_url(postgres_url).set(drivername="postgresql+psycopg")
    return {"type": "sql", "uri": url.render_as_string(hide_password=False), "schema": schema}


@pytest.fixture(autouse=True, scope="module")
def _quick() -> Iterator[None]:
    with without_fsync():
        yield


@pytest.fixture
def postgres_settings(postgres_url: str, tmp_path: Path) -> LakeSettings:
    schema = f"lake_{secrets.token_hex(6)}"
    return LakeSettings("default", str(tmp_path / "lake"), catalog_in(postgres_url, schema))


@pytest.fixture(scope="session")
def s3_storage() -> Iterator[dict[str, str]]:
    """Yield PyIceberg's properties of an S3 with the bucket `lake`."""
    from moto.server import ThreadedMotoServer
    from pyarrow.fs import S3FileSystem

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    storage = {
        "s3.endpoint": f"http://{host}:{port}",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }
    files = S3FileSystem(
        endpoint_override=storage["s3.endpoint"],
        access_key="key",
        secret_key="secret",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    files.create_dir("lake")
    yield storage
    server.stop()
