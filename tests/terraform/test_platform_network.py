"""Network policies of the platform module: nobody reaches what it has no business with."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from edge.egress.addresses import DENIED_V4, DENIED_V6
from tests.terraform.manifests import LARGE, SMALL, rendered
from tests.terraform.reach import Reach

HTTP, STORE, STORE_METRICS, LINK, RUNNER, FRONT_METRICS = 8080, 9001, 9101, 9002, 9102, 8405
METRICS = 9103
POSTGRES = "10.9.0.4"
PUBLIC = "93.184.215.14"
SERVERS = ("publish", "subscribe", "gateway", "scheduler")
EXPECTED = {
    *((server, "store", STORE) for server in SERVERS),
    ("store", "store", STORE),
    ("backup", "store", STORE),
    ("subscribe", "subscribe", LINK),
    *(("front", server, HTTP) for server in ("publish", "subscribe", "gateway")),
    ("export-runner", "front", HTTP),
}
"""Every connection that there is between pods."""


@pytest.fixture(scope="module")
def reach(tmp_path_factory: pytest.TempPathFactory) -> Reach:
    """Return the connections with exports, TLS at the front and issuers of tenants."""
    return Reach(rendered(tmp_path_factory.mktemp("large") / "main", LARGE))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Reach:
    return Reach(rendered(tmp_path_factory.mktemp("small") / "main", SMALL))


def test_pods_reach_each_other_only_where_they_must(reach: Reach) -> None:
    pods = {"store", "migrate", "front", "export-runner", "backup", *SERVERS}
    ports = (HTTP, STORE, STORE_METRICS, LINK, RUNNER, FRONT_METRICS, METRICS, 8443, 22)
    found = {each for each in product(pods, pods, ports) if reach.between(*each)}
    assert found == EXPECTED


def test_postgres_is_for_servers_migrations_and_backups(reach: Reach, plain: Reach) -> None:
    assert reach.out("backup", POSTGRES, 5432)
    found = {
        pod for pod in ("store", "migrate", "front", *SERVERS) if plain.out(pod, POSTGRES, 5432)
    }
    assert found == {"migrate", *SERVERS}


def test_webhooks_leave_from_subscribe_forwarders_alone(plain: Reach) -> None:
    everybody = ("store", "migrate", "front", *SERVERS)
    assert [pod for pod in everybody if plain.out(pod, PUBLIC, 443)] == ["subscribe"]
    assert not plain.out("subscribe", PUBLIC, 22)


def test_who_checks_tokens_of_tenants_issuers_may_fetch_their_keys(reach: Reach) -> None:
    found = [pod for pod in ("store", "migrate", "front", *SERVERS) if reach.out(pod, PUBLIC, 443)]
    assert found == ["publish", "subscribe", "gateway"]


@pytest.mark.parametrize("pod", ["store", "migrate", "front", *SERVERS])
def test_nobody_reaches_what_keeps_credentials_of_the_cloud(plain: Reach, pod: str) -> None:
    for address in ("169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"):
        for port in (80, 443, 8443):
            assert not plain.out(pod, address, port), address


def test_runners_of_exports_neither(reach: Reach) -> None:
    assert reach.out("export-runner", PUBLIC, 443)
    assert not reach.out("export-runner", "169.254.169.254", 443)
    assert not reach.out("export-runner", PUBLIC, 80)


def test_what_the_guard_of_webhooks_denies_the_network_denies_too(plain: Reach) -> None:
    reached = [
        str(network)
        for network, _ in (*DENIED_V4, *DENIED_V6)
        for address in (network[0], network[-1])
        if plain.out("subscribe", str(address), 443)
    ]
    assert reached == []


def test_prometheus_reads_metrics_and_no_other_namespace(reach: Reach) -> None:
    metrics = {
        **dict.fromkeys(SERVERS, METRICS),
        "store": STORE_METRICS,
        "front": FRONT_METRICS,
        "export-runner": RUNNER,
    }
    for pod, port in metrics.items():
        assert reach.from_namespace("monitoring", pod, port), pod
        assert not reach.from_namespace("default", pod, port), pod
    assert not reach.from_namespace("monitoring", "store", STORE)
    for server in SERVERS:
        assert not reach.from_namespace("monitoring", server, HTTP)


def test_the_public_comes_to_the_front_alone(reach: Reach, plain: Reach) -> None:
    assert plain.into("front", "203.0.113.9", HTTP)
    assert reach.into("front", "198.51.100.9", 8443)
    assert not reach.into("front", "203.0.113.9", 8443)  # Not among those allowed.
    assert not reach.into("front", "198.51.100.9", HTTP)
    for pod in ("store", "migrate", *SERVERS):
        for port in (HTTP, STORE, LINK):
            assert not plain.into(pod, "203.0.113.9", port)


def test_webhooks_go_by_a_proxy_where_there_is_one(tmp_path: Path) -> None:
    network = {"egress_proxy": "http://10.8.0.7:4750", "egress_proxy_cidr": "10.8.0.7/32"}
    reach = Reach(rendered(tmp_path / "main", {**SMALL, "network": network}))
    assert reach.out("subscribe", "10.8.0.7", 4750)
    assert not reach.out("subscribe", PUBLIC, 443)


def test_no_networks_or_no_ports_are_none_and_not_all(tmp_path: Path) -> None:
    for none in ({"webhooks": []}, {"webhook_ports": []}):
        network = {**none, "issuers": True}
        directory = tmp_path / next(iter(none))
        reach = Reach(rendered(directory, {**SMALL, "network": network}))
        for pod in ("subscribe", "gateway"):
            assert not reach.out(pod, PUBLIC, 443)
