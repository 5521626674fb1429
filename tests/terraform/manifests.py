"""The output of the platform module, rendered by the real terraform, and its pods' view of it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.terraform.built_provider import ROOT
from tests.terraform.workspace import Workspace

MODULE = ROOT / "deploy/terraform/modules/platform/manifests"
NAMESPACE = "packetboat"
COMPONENT = "app.kubernetes.io/component"
SMALL: Mapping[str, Any] = {
    "image": "registry.example.com/packetboat:0.3.0",
    "issuer": "https://mq.example.com",
    "postgres": {"url": "postgresql://u:p@postgres:5432/db", "cidrs": ["10.9.0.0/16"]},
    "front": {"plain_http": True},
}
"""The least that can be said."""
LARGE: Mapping[str, Any] = dict(SMALL) | {
    "store": {
        "nodes": {
            "1": {"zone": "a"},
            "2": {"zone": "b"},
            "3": {"zone": "c", "removed": True},
            "4": {"zone": "c", "join": True},
        }
    },
    "autoscaling": {"prometheus_url": "http://prometheus.monitoring:9090"},
    "front": {
        "tls_secret": "public",
        "allow": ["198.51.100.0/24"],
        "ingress": {"host": "mq.example.com", "class": "public", "tls_secret": "public"},
    },
    "exports": {
        "image": "registry.example.com/packetboat-exports:0.3.0",
        "credential_secret": "export-runner",
        "lakes": [
            {
                "name": "default",
                "warehouse": "s3://lake",
                "spark_master": "spark://spark:7077",
                "catalog": {"type": "sql", "uri": "postgresql+psycopg://lake:x@postgres:5432/lake"},
            }
        ],
        "egress": [{"cidr": "0.0.0.0/0", "ports": [443]}],
        "spark_pods": {"spark-app": "lake"},
    },
    "backup": {"claim": "vault"},
    "restore": {"claim": "vault", "name": "newest"},
    "peer_tls": {"mode": "require", "issuer": {"name": "packetboat-ca"}},
    "network": {"issuers": True, "dns_cidrs": ["169.254.20.10/32"]},
    "monitoring": {"operator": True, "dashboards": True},
}
"""Everything that can be asked for."""

Object = dict[str, Any]


def rendered(directory: Path, configuration: Mapping[str, Any]) -> Manifests:
    """Render the manifests for these variables of the module; raises TerraformFailed."""
    main = {
        "module": {"platform": {"source": str(MODULE), **configuration}},
        "output": {"yaml": {"value": "${module.platform.yaml}", "sensitive": True}},
    }
    workspace = Workspace(directory, {}).write(json.dumps(main), "main.tf.json").init()
    workspace.command("apply", "-no-color", "-auto-approve")
    return Manifests(workspace.command("output", "-raw", "yaml"))


class Manifests:
    """All objects, in the order in which they are applied."""

    def __init__(self, text: str) -> None:
        self.objects: list[Object] = list(yaml.safe_load_all(text))

    def of_kind(self, *kinds: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] in kinds]

    def get(self, kind: str, name: str) -> Object:
        """Raises StopIteration."""
        return next(each for each in self.of_kind(kind) if each["metadata"]["name"] == name)

    def workloads(self) -> Iterator[tuple[str, Object]]:
        """Yield each pod template, after the name of its component."""
        for each in self.of_kind("Deployment", "StatefulSet", "Job", "CronJob"):
            template = each["spec"].get("jobTemplate", each)["spec"]["template"]
            yield template["metadata"]["labels"][COMPONENT], template

    def components(self) -> dict[str, Object]:
        """Return one pod template of each component."""
        return dict(self.workloads())

    def secret(self, name: str, key: str) -> str:
        """Return a value of a Secret that the module makes; raises StopIteration and KeyError."""
        return base64.b64decode(self.get("Secret", name)["data"][key]).decode()

    def environment(self, container: Object, fields: Mapping[str, str]) -> dict[str, str]:
        """As the kubelet makes it: `fields` has what a pod knows of itself, by its path."""
        found: dict[str, str] = {}
        for each in container.get("env", []):
            if "value" in each:
                value = re.sub(r"\$\((\w+)\)", lambda m: found.get(m[1], m[0]), each["value"])
            elif "fieldRef" in each["valueFrom"]:
                value = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            else:
                reference = each["valueFrom"]["secretKeyRef"]
                value = self.secret(reference["name"], reference["key"])
            found[each["name"]] = value
        return found


def container_of(template: Object) -> Object:
    """Return the only container of a pod template."""
    (container,) = template["spec"]["containers"]
    found: Object = container
    return found
