"""The platform module, applied by Terraform's own provider for Kubernetes to a real API with real
controllers. Not in CI: what it needs takes minutes to build (docs/operations/kubernetes.md).

The tests of one installation go one after the other, from its first day to its last.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.processes import Processes
from tests.terraform.built_provider import ROOT
from tests.terraform.control_plane import ControlPlane, kinds, tools
from tests.terraform.manifests import LARGE, SMALL, Object, rendered
from tests.terraform.workspace import Plan, TerraformFailed, Workspace

TOOLS = tools()
MODULE = ROOT / "deploy/terraform/modules/platform"
NEW_IMAGE = "registry.example.com/packetboat:0.4.0"
POLL_S = 0.2
UPDATE = ("update",)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Yield a cluster of Kubernetes alone, without any operator's kinds."""
    with Processes() as processes:
        yield ControlPlane(tmp_path_factory.mktemp("cluster"), TOOLS).start(processes)


class Jobs(threading.Thread):
    """Says of every pod of a Job in a namespace that it has done its work, as a node would."""

    def __init__(self, cluster: ControlPlane, namespace: str) -> None:
        super().__init__(daemon=True)
        self._cluster, self._namespace = cluster, namespace
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(POLL_S):
            for pod in self._cluster.items("v1", "Pod", self._namespace):
                owners = [each["kind"] for each in pod["metadata"].get("ownerReferences", [])]
                if owners == ["Job"] and pod["status"]["phase"] == "Pending":
                    done = {"status": {"phase": "Succeeded"}}
                    self._cluster.change(pod, done, part="status")

    def __enter__(self) -> Jobs:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


@dataclass
class Installation:
    """One installation, in a namespace of its own."""

    cluster: ControlPlane
    workspace: Workspace
    namespace: str
    configuration: dict[str, Any]

    def write(self, **changes: Any) -> None:
        """Write the configuration, with these variables from now on."""
        self.configuration |= changes
        access = {"host": self.cluster.url, "token": self.cluster.token}
        certificate = self.cluster.ca.read_text()
        platform = {"source": str(MODULE), "namespace": self.namespace, **self.configuration}
        main = {
            "terraform": {"required_providers": {"kubernetes": {"source": "hashicorp/kubernetes"}}},
            "provider": {"kubernetes": access | {"cluster_ca_certificate": certificate}},
            "module": {"platform": platform},
        }
        self.workspace.write(json.dumps(main), "main.tf.json")

    def apply(self) -> None:
        with Jobs(self.cluster, self.namespace):
            self.workspace.apply()

    def items(self, version: str, kind: str) -> dict[str, Object]:
        """Return all objects of a kind, by name."""
        found = self.cluster.items(version, kind, self.namespace)
        return {each["metadata"]["name"]: each for each in found}

    def named(self, version: str, kind: str, name: str) -> Object:
        return self.items(version, kind)[name]


def opened(
    cluster: ControlPlane, configuration: Mapping[str, Any], directory: Path
) -> Installation:
    """Return an installation of which nothing is applied; skip if the provider is not available."""
    handed_on = {k: v for k, v in os.environ.items() if k == "TF_CLI_CONFIG_FILE"}
    workspace = Workspace(directory, handed_on)
    made = Installation(cluster, workspace, directory.name, dict(configuration))
    made.write()
    try:
        workspace.init()
    except TerraformFailed as why:
        if "hashicorp/kubernetes" not in str(why):
            raise
        pytest.skip(
            "hashicorp/kubernetes is missing: run this where registry.terraform.io can be reached, "
            "or with a TF_CLI_CONFIG_FILE whose filesystem_mirror has the provider"
        )
    return made


def test_without_an_operator_the_plan_says_which_kind_is_missing(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    installation = opened(cluster, LARGE, tmp_path / "without")
    assert missing_kinds(installation) == {"Certificate"}
    # The plan checks the other kinds only after this one.
    installation.write(peer_tls={})
    assert missing_kinds(installation) == {"PodMonitor", "PrometheusRule", "ScaledObject"}


def missing_kinds(installation: Installation) -> set[str]:
    with pytest.raises(TerraformFailed, match="CRD may not be installed") as refused:
        installation.workspace.plan()
    return set(re.findall(r'no matches for kind "(\w+)"', str(refused.value)))


@pytest.fixture(scope="module")
def operators(cluster: ControlPlane) -> ControlPlane:
    """Return the cluster with the kinds of all operators that the module knows."""
    for kind in kinds(TOOLS):
        cluster.define(kind)
    return cluster


@pytest.mark.parametrize("configuration", [SMALL, LARGE], ids=["small", "large"])
def test_the_api_takes_every_object_without_a_warning(
    operators: ControlPlane, configuration: Mapping[str, Any], tmp_path: Path
) -> None:
    manifests = rendered(tmp_path / "main", {**configuration, "namespace": "trial"})
    (namespace,) = manifests.of_kind("Namespace")
    operators.apply(namespace)
    warned = {
        (each["kind"], each["metadata"]["name"]): warning
        for each in manifests.objects
        if (warning := operators.apply(each, trial=True))
    }
    assert warned == {}


@pytest.fixture(scope="module", params=[SMALL, LARGE], ids=["small", "large"])
def installed(
    request: pytest.FixtureRequest,
    operators: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Installation:
    made = opened(operators, request.param, tmp_path_factory.mktemp("installed"))
    made.apply()
    return made


def unchanged(plan: Plan) -> bool:
    assert plan.empty, plan.text
    return True


def test_a_second_plan_is_empty(installed: Installation) -> None:
    assert unchanged(installed.workspace.plan())


def test_pods_of_every_component_are_let_in(installed: Installation) -> None:
    """The namespace's Pod Security level lets them in; a controller reports each pod that
    it could not make.
    """

    def all_there() -> bool:
        pods = installed.items("v1", "Pod").values()
        owners = [each["metadata"]["labels"]["app.kubernetes.io/component"] for each in pods]
        wanted = {
            each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"]["replicas"]
            for each in installed.items("apps/v1", "Deployment").values()
        }
        wanted["store"] = len(installed.items("apps/v1", "StatefulSet"))
        return all(owners.count(component) == count for component, count in wanted.items())

    installed.cluster.until(all_there, "some pods were not made")
    reasons = {each["reason"] for each in installed.items("v1", "Event").values()}
    assert "FailedCreate" not in reasons


def test_what_others_write_beside_us_is_no_change(installed: Installation) -> None:
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    template = {"metadata": {"annotations": restarted}}
    installed.cluster.change(gateway_of(installed), {"spec": {"template": template}})
    scaled_to(installed, 3)
    assert unchanged(installed.workspace.plan())


def scaled_to(installed: Installation, replicas: int) -> None:
    """Set the replicas of the gateway, as an autoscaler does."""
    change = {"spec": {"replicas": replicas}}
    installed.cluster.change(gateway_of(installed), change, part="scale", manager="autoscaler")


def gateway_of(installed: Installation) -> Object:
    return installed.named("apps/v1", "Deployment", "packetboat-gateway")


def test_what_others_changed_of_ours_is_put_right(installed: Installation) -> None:
    name = "packetboat-store"
    budget = installed.named("policy/v1", "PodDisruptionBudget", name)
    installed.cluster.change(budget, {"spec": {"maxUnavailable": 3}})
    plan = installed.workspace.plan()
    assert list(plan.changes.values()) == [UPDATE], plan.text
    installed.workspace.apply_planned()
    spec = installed.named("policy/v1", "PodDisruptionBudget", name)["spec"]
    assert spec["maxUnavailable"] == 1


def test_a_new_version_is_a_new_job_and_else_changes_in_place(installed: Installation) -> None:
    jobs = set(installed.items("batch/v1", "Job"))
    installed.write(image=NEW_IMAGE)
    plan = installed.workspace.plan()
    of_jobs = {each for each in plan.changes if "Job/packetboat-migrate" in each}
    assert {plan.changes[each] for each in of_jobs} == {("create",), ("delete",)}
    assert {plan.changes[each] for each in plan.changes.keys() - of_jobs} == {UPDATE}
    with Jobs(installed.cluster, installed.namespace):
        installed.workspace.apply_planned()
    assert set(installed.items("batch/v1", "Job")).isdisjoint(jobs)
    gateway = gateway_of(installed)["spec"]
    assert gateway["template"]["spec"]["containers"][0]["image"] == NEW_IMAGE
    # As the autoscaler had it.
    assert gateway["replicas"] == 3
    assert unchanged(installed.workspace.plan())


def test_an_autoscaler_that_acts_meanwhile_is_not_set_back(installed: Installation) -> None:
    installed.write(gateway={"memory": "2Gi"})
    installed.workspace.plan()
    scaled_to(installed, 4)
    with pytest.raises(TerraformFailed, match="field manager conflict"):
        installed.workspace.apply_planned()
    assert gateway_of(installed)["spec"]["replicas"] == 4
    installed.apply()
    assert gateway_of(installed)["spec"]["replicas"] == 4
    assert unchanged(installed.workspace.plan())


def test_a_store_node_changes_when_its_pod_is_deleted_and_not_before(
    installed: Installation,
) -> None:
    """The script roll-store.sh relies on this."""
    name = "packetboat-store-1"
    status = installed.named("apps/v1", "StatefulSet", name)["status"]
    pod = installed.named("v1", "Pod", f"{name}-0")
    assert pod["metadata"]["labels"]["controller-revision-hash"] != status["updateRevision"]
    assert pod["spec"]["containers"][0]["image"] == SMALL["image"]
    installed.cluster.delete(pod)

    def is_new() -> bool:
        made = installed.items("v1", "Pod").get(f"{name}-0")
        return made is not None and made["metadata"]["uid"] != pod["metadata"]["uid"]

    installed.cluster.until(is_new, "no pod was made in its place")
    made = installed.named("v1", "Pod", f"{name}-0")
    assert made["metadata"]["labels"]["controller-revision-hash"] == status["updateRevision"]
    assert made["spec"]["containers"][0]["image"] == NEW_IMAGE


def test_quantities_may_be_written_in_any_way(installed: Installation) -> None:
    installed.write(publish={"cpu": "1500m", "memory": "1024Mi"}, subscribe={"cpu": "2000m"})
    installed.apply()
    assert unchanged(installed.workspace.plan())


def test_secrets_are_changed_without_being_shown(installed: Installation) -> None:
    before = installed.named("v1", "Secret", "packetboat-secrets")["data"]
    postgres = SMALL["postgres"] | {"url": "postgresql://u:another@postgres:5432/db"}
    installed.write(postgres=postgres, secrets={"ack_secret": ["a", "b"]})
    plan = installed.workspace.plan()
    printed = plan.text + installed.workspace.apply_planned()
    after = installed.named("v1", "Secret", "packetboat-secrets")["data"]
    assert {key for key in after if after[key] != before[key]} == {"ack-secret", "database-url"}
    for value in (*before.values(), *after.values()):
        assert value not in printed
        assert base64.b64decode(value).decode() not in printed
    assert unchanged(installed.workspace.plan())


def test_the_namespace_and_with_it_messages_are_not_destroyed(installed: Installation) -> None:
    claims = set(installed.items("v1", "PersistentVolumeClaim"))
    assert len(claims) == 3
    with pytest.raises(TerraformFailed, match="prevent_destroy"):
        installed.workspace.destroy()
    installed.workspace.command("state", "rm", "module.platform.kubernetes_manifest.namespace")
    installed.workspace.destroy()
    assert installed.workspace.resources() == {}
    for version, kind in (("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("v1", "Service")):
        assert installed.items(version, kind) == {}
    assert set(installed.items("v1", "PersistentVolumeClaim")) == claims
