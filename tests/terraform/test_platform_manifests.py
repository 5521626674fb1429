"""The objects of the platform module: valid for Kubernetes, and true of the programs they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.terraform.built_provider import ROOT
from tests.terraform.manifests import (
    LARGE,
    SMALL,
    Manifests,
    Object,
    container_of,
    rendered,
)

VERSIONS = ("1.29", "1.37")
"""The oldest that we say works, and the newest whose schemas there are."""
CUSTOM = {"Certificate", "PodMonitor", "PrometheusRule", "ScaledObject"}
"""Kinds of operators in the cluster, for which Kubernetes has no schemas."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Manifests:
    return rendered(tmp_path_factory.mktemp("small") / "main", SMALL)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Manifests:
    return rendered(tmp_path_factory.mktemp("large") / "main", LARGE)


@pytest.fixture(params=["small", "large"])
def manifests(request: pytest.FixtureRequest) -> Manifests:
    found: Manifests = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_every_object(manifests: Manifests, version: str) -> None:
    for each in manifests.objects:
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, version, strict=True)


def test_no_object_is_there_twice(manifests: Manifests) -> None:
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests.objects]
    assert len(names) == len(set(names))


def test_nothing_is_empty(manifests: Manifests) -> None:
    """The API does not keep it, and Terraform's provider then says that it lost something."""
    for each in manifests.objects:
        found = [path for path in empties(each) if not path.endswith(".emptyDir")]
        assert found == [], each["metadata"]["name"]


def empties(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of empty lists, objects and texts, and of nulls."""
    if value in ([], {}, "", None):
        yield path
    elif isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for name, member in members:
            yield from empties(member, f"{path}.{name}")


def test_only_what_an_operator_brings_needs_one(small: Manifests, large: Manifests) -> None:
    assert small.of_kind(*CUSTOM) == []
    assert {each["kind"] for each in large.of_kind(*CUSTOM)} == CUSTOM


def test_every_setting_is_one_of_ours(manifests: Manifests) -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    known = set(re.findall(r"PACKETBOAT_[A-Z0-9_]+", page))
    given = {
        each["name"]
        for _, template in manifests.workloads()
        for each in container_of(template).get("env", [])
        if each["name"].startswith("PACKETBOAT_")
    }
    assert given - known == set()


def test_probes_services_and_monitors_name_ports_that_are_there(manifests: Manifests) -> None:
    for component, template in manifests.workloads():
        container = container_of(template)
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if probe in container:
                how = container[probe].get("httpGet") or container[probe]["tcpSocket"]
                assert how["port"] in ports, (component, probe)
    for service in manifests.of_kind("Service"):
        found = selected(manifests, {"matchLabels": service["spec"]["selector"]})
        assert found, service["metadata"]["name"]
        for port in service["spec"]["ports"]:
            for template in found:
                names = {each["name"] for each in container_of(template)["ports"]}
                assert port["targetPort"] in names, service["metadata"]["name"]
    for monitor in manifests.of_kind("PodMonitor"):
        for template in selected(manifests, monitor["spec"]["selector"]):
            names = {each["name"] for each in container_of(template)["ports"]}
            (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
            assert endpoint["port"] in names


def test_every_process_that_stays_can_be_watched(large: Manifests) -> None:
    watched = [
        id(template)
        for monitor in large.of_kind("PodMonitor")
        for template in selected(large, monitor["spec"]["selector"])
    ]
    ends = ("migrate", "backup")
    stay = [id(template) for component, template in large.workloads() if component not in ends]
    assert sorted(watched) == sorted(stay)


def selected(manifests: Manifests, selector: Object) -> list[Object]:
    """Return the pod templates whose labels match."""
    return [template for _, template in manifests.workloads() if matches(template, selector)]


def matches(template: Object, selector: Object) -> bool:
    labels: dict[str, str] = template["metadata"]["labels"]
    wanted = selector.get("matchLabels", {})
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )


def test_selectors_are_of_the_pods_that_they_come_with(manifests: Manifests) -> None:
    for each in manifests.of_kind("Deployment", "StatefulSet"):
        assert matches(each["spec"]["template"], each["spec"]["selector"])
    for budget in manifests.of_kind("PodDisruptionBudget"):
        assert selected(manifests, budget["spec"]["selector"]), budget["metadata"]["name"]


def test_nothing_may_more_than_it_needs(manifests: Manifests) -> None:
    assert manifests.of_kind("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding") == []
    accounts = {each["metadata"]["name"] for each in manifests.of_kind("ServiceAccount")}
    for component, template in manifests.workloads():
        spec, container = template["spec"], container_of(template)
        assert spec["serviceAccountName"] in accounts, component
        assert spec["automountServiceAccountToken"] is False, component
        assert spec["securityContext"]["runAsNonRoot"] is True, component
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, component
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, component
        assert container["resources"]["limits"]["memory"], component


def test_each_has_the_secrets_that_it_needs_and_no_others(small: Manifests) -> None:
    found = {
        component: {
            each["name"].removeprefix("PACKETBOAT_")
            for each in container_of(template).get("env", [])
            if "secretKeyRef" in each.get("valueFrom", {})
        }
        for component, template in small.workloads()
    }
    everybody = {"STORE_SECRET", "DATABASE_URL"}
    assert found == {
        "store": {"STORE_SECRET", "CLUSTER_UID"},
        "publish": everybody,
        "subscribe": everybody | {"ACK_SECRET", "SEAL_KEYS"},
        "gateway": everybody | {"SEAL_KEYS"},
        "scheduler": everybody,
        "migrate": {"DATABASE_URL"},
        "front": set(),
    }


def test_a_pod_is_not_killed_before_it_has_drained(manifests: Manifests) -> None:
    for component, template in manifests.workloads():
        environment = {e["name"]: e.get("value", "") for e in container_of(template).get("env", [])}
        for name in ("PACKETBOAT_DRAIN_S", "PACKETBOAT_RUNNER_DRAIN_SECONDS"):
            if name in environment:
                grace_s = template["spec"]["terminationGracePeriodSeconds"]
                # A process forces its own end two seconds after its drain; a runner's drivers
                # have ten more.
                assert grace_s >= float(environment[name]) + 10, component
        hook = container_of(template).get("lifecycle", {}).get("preStop")
        if hook:
            longest_s = sum(map(int, re.findall(r"(?:timeout|sleep) (\d+)", str(hook))))
            assert template["spec"]["terminationGracePeriodSeconds"] > longest_s > 0, component


def test_alerts_and_dashboards_are_those_of_deploy(large: Manifests) -> None:
    (rule,) = large.of_kind("PrometheusRule")
    rules = yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text(encoding="utf-8"))
    assert rule["spec"] == rules
    boards = {path.name: path for path in (ROOT / "deploy/grafana").glob("*.json")}
    shown = {
        name: text
        for each in large.of_kind("ConfigMap")
        if each["metadata"]["labels"].get("grafana_dashboard") == "1"
        for name, text in each["data"].items()
    }
    assert shown == {name: path.read_text(encoding="utf-8") for name, path in boards.items()}


def test_metrics_that_scale_are_told_by_the_code(large: Manifests) -> None:
    queries = [
        trigger["metadata"]["query"]
        for each in large.of_kind("ScaledObject")
        for trigger in each["spec"]["triggers"]
        if trigger["type"] == "prometheus"
    ]
    names = {name for query in queries for name in re.findall(r"packetboat_\w+", query)}
    assert "packetboat_subscribe_consumed_backlog" in names
    code = "".join(
        path.read_text(encoding="utf-8")
        for part in ("subscribe_forwarder", "scheduler")
        for path in (ROOT / part).rglob("metrics.py")
    )
    assert [name for name in names if f'"{name}"' not in code] == []


def test_the_export_runner_reads_its_settings_and_its_lakes(
    large: Manifests, tmp_path: Path
) -> None:
    from spark_exports.runner.lakes import lakes_in
    from spark_exports.runner.settings import RunnerSettings

    container = container_of(large.components()["export-runner"])
    fields = {"status.podIP": "10.0.0.7", "metadata.name": "runner-a"}
    without = {**container, "env": [e for e in container["env"] if not of_credential(e)]}
    settings = RunnerSettings.from_environment(large.environment(without, fields))
    assert (settings.name, settings.metrics_port) == ("runner-a", 9102)
    file = tmp_path / "lakes.json"
    file.write_text(large.secret("packetboat-lakes", "lakes.json"), encoding="utf-8")
    (lake,) = lakes_in(file).values()
    assert lake.spark_master == "spark://spark:7077"
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert str(settings.lakes.parent) in mounted


def of_credential(variable: dict[str, Any]) -> bool:
    """Return whether a variable comes from the operator's own Secret."""
    reference = variable.get("valueFrom", {}).get("secretKeyRef", {})
    return bool(reference.get("name") == "export-runner")


def test_each_file_of_the_module_is_from_deploy() -> None:
    for name in ("haproxy", "prometheus", "grafana"):
        link = ROOT / "deploy/terraform/modules/platform/manifests/files" / name
        assert link.resolve() == ROOT / "deploy" / name
