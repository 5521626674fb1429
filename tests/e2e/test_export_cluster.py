"""An export whose lake is on a cluster, asked for and cancelled by the API: its tasks work there,
and end there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from packetboat import Client

from spark_exports.order import LakeSettings
from tests.e2e.installation import WITH_EXPORTS, Installation
from tests.e2e.test_exports import RUN_S, has_all, make_topic, publish, run, told, until
from tests.spark_cluster import SparkCluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster") / "own").started() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def platform(
    cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    directory: Path = tmp_path_factory.mktemp("platform")
    lake = LakeSettings(
        name="default",
        warehouse=str(directory / "lake"),
        catalog={"type": "sql", "uri": f"sqlite:///{directory}/catalog.db"},
        spark_master=cluster.master,
        spark_conf=cluster.conf,
    )
    lakes = directory / "lakes.json"
    lakes.write_bytes(msgspec.json.encode([lake]))
    lakes.chmod(0o600)
    installation = Installation(directory / "data")
    installation.settings = WITH_EXPORTS | {"PACKETBOAT_LAKES": str(lakes)}
    with installation.started():
        yield installation


@pytest.fixture(scope="module")
def client(platform: Installation) -> Iterator[Client]:
    with Client(platform.url, platform.token) as client:
        yield client


def test_a_run_comes_to_its_end_there(
    platform: Installation, client: Client, cluster: SparkCluster
) -> None:
    make_topic(client, "orders", partitions=2)
    publish(client, "orders", range(500))
    client.exports.create("orders", "orders")
    assert run(platform, client, "orders").rows == 500
    assert has_all(client, "orders", "orders")
    assert "Asked to launch executor" in cluster.log
    until(lambda: not cluster.tasks())


def test_a_run_that_is_cancelled_ends_there(
    platform: Installation, client: Client, cluster: SparkCluster
) -> None:
    make_topic(client, "slow")
    publish(client, "slow", range(200), filling="x" * 1_000)
    # Ten seconds for each kilobyte: it would read for many minutes.
    client.exports.create("slow", "slow", max_bytes_per_second=100)
    handle = client.exports.run("slow")
    with told(platform):
        until(lambda: any("pyspark.daemon" in line for line in cluster.tasks().values()))
        handle.cancel()
        assert handle.wait(timeout_s=RUN_S).state == "cancelled"
    until(lambda: not cluster.tasks())
    assert client.exports.get("slow").rows == 0
