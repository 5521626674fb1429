"""The control plane of a cluster on this machine: etcd, Kubernetes' API server and its controllers.
There is no node, so no pod runs: what a kubelet would say of one, tests say."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from harness.processes import Processes, free_ports
from peering.authority import issue, make_authority
from tests.terraform.built_provider import ROOT
from tests.terraform.manifests import Object

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
START_S = 600.0
CALL_S = 120.0
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


def tools() -> Path:
    """Return the directory of the programs and the operators' kinds.

    Where they are missing, skip the whole file with a text that says how to get them.
    """
    directory = Path(os.environ.get("PACKETBOAT_TEST_KUBERNETES", ROOT / "build/kubernetes"))
    missing = [name for name in PROGRAMS if not shutil.which(name, path=str(directory))]
    if missing or not (directory / "kinds").is_dir():
        pytest.skip(
            f"{directory}: {', '.join(missing) or 'kinds'} missing: `make kubernetes-tools` builds "
            "them (Go, minutes), or PACKETBOAT_TEST_KUBERNETES says where they are",
            allow_module_level=True,
        )
    return directory


def kinds(tools: Path) -> list[Object]:
    """Return the definitions of the operators' kinds, as their projects have them."""
    files = sorted((tools / "kinds").glob("*.yaml"))
    return [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]


class ControlPlane:
    """The API of a cluster, for a user who may do everything.

    All its data is gone with the directory.
    """

    def __init__(self, directory: Path, tools: Path) -> None:
        self._directory, self._tools = directory, tools
        directory.mkdir(parents=True, exist_ok=True)
        self._etcd, peers, api = free_ports(3)
        self._peers = peers
        self.url = f"https://localhost:{api}"
        self.token = secrets.token_hex(16)
        self._port = api
        authority = make_authority("cluster")
        authority.write(self.ca, directory / "ca.key")
        issue(authority, "localhost").write(directory / "tls.crt", directory / "tls.key")
        (directory / "tokens.csv").write_text(f'{self.token},root,root,"system:masters"\n')
        (directory / "kubeconfig").write_text(json.dumps(self._kubeconfig()))
        self._http = requests.Session()
        # Else a variable of this machine goes before the CA.
        self._http.trust_env = False
        self._http.verify = str(self.ca)
        self._http.headers["Authorization"] = f"Bearer {self.token}"
        self._resources: dict[tuple[str, str], Object] = {}

    @property
    def ca(self) -> Path:
        return self._directory / "ca.crt"

    def start(self, processes: Processes) -> ControlPlane:
        """Returns when it answers."""
        for name, arguments in (
            ("etcd", self._etcd_arguments()),
            ("kube-apiserver", self._api_arguments()),
        ):
            self._start(name, arguments, processes)
        self.until(self._is_ready, "the API is not ready")
        self._start("kube-controller-manager", self._controller_arguments(), processes)
        return self

    def define(self, kind: Object) -> None:
        """Define a kind of an operator's; return when the API serves it."""
        self.apply(kind)
        self.until(lambda: _holds(self.get(kind), "Established"), f"not served: {kind}")

    def until(self, done: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + START_S
        while not done():
            assert time.monotonic() < deadline_s, what + self._logs()
            time.sleep(0.1)

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        """Return the answer of a request, of any status."""
        return self._http.request(method, self.url + path, timeout=CALL_S, **more)

    def apply(self, found: Object, *, trial: bool = False) -> str:
        """Apply an object server-side with strict checks of its fields; return the warnings.

        Raises AssertionError.
        """
        parameters = {"fieldManager": "tests", "fieldValidation": "Strict"}
        answer = self.call(
            "PATCH",
            self.path(found),
            params=parameters | ({"dryRun": "All"} if trial else {}),
            data=json.dumps(found),
            headers={"Content-Type": APPLY},
        )
        assert answer.ok, f"{found['kind']} {found['metadata']['name']}: {answer.text}"
        return answer.headers.get("Warning", "")

    def get(self, found: Object) -> Object:
        """Return the present object; raises AssertionError."""
        return self._read(self.path(found))

    def items(self, version: str, kind: str, namespace: str) -> list[Object]:
        """Return all objects of a kind in a namespace, such as those of `apps/v1` and
        `Deployment`.
        """
        metadata = {"name": "", "namespace": namespace}
        path = self.path({"apiVersion": version, "kind": kind, "metadata": metadata})
        items: list[Object] = self._read(path.rstrip("/"))["items"]
        return [{"apiVersion": version, "kind": kind, **each} for each in items]

    def change(
        self, found: Object, change: Object, *, part: str = "", manager: str = "somebody"
    ) -> None:
        """Merge a change into an object or, for instance, into its `status`.

        Raises AssertionError.
        """
        answer = self.call(
            "PATCH",
            f"{self.path(found)}/{part}".rstrip("/"),
            params={"fieldManager": manager},
            data=json.dumps(change),
            headers={"Content-Type": MERGE},
        )
        assert answer.ok, answer.text

    def delete(self, found: Object) -> None:
        """Returns at once; raises AssertionError."""
        answer = self.call("DELETE", self.path(found))
        assert answer.ok, answer.text

    def path(self, found: Mapping[str, Any]) -> str:
        """Return the path of an object's resource, as the API itself says."""
        version, kind = found["apiVersion"], found["kind"]
        prefix = "/api/v1" if version == "v1" else f"/apis/{version}"
        if (version, kind) not in self._resources:
            for each in self._read(prefix)["resources"]:
                if "/" not in each["name"]:
                    self._resources[version, each["kind"]] = each
        resource, metadata = self._resources[version, kind], found["metadata"]
        namespace = f"/namespaces/{metadata['namespace']}" if resource["namespaced"] else ""
        return f"{prefix}{namespace}/{resource['name']}/{metadata['name']}"

    def _read(self, path: str) -> Object:
        answer = self.call("GET", path)
        assert answer.ok, f"{path}: {answer.text}"
        found: Object = answer.json()
        return found

    def _start(self, name: str, arguments: Mapping[str, object], processes: Processes) -> None:
        given = [f"--{option}={value}" for option, value in arguments.items()]
        program = self._tools / name
        processes.start([program, *given], log=self._directory / f"{name}.log")

    def _etcd_arguments(self) -> dict[str, object]:
        clients, peers = (f"http://127.0.0.1:{port}" for port in (self._etcd, self._peers))
        return {
            "data-dir": self._directory / "etcd",
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "unsafe-no-fsync": "true",
        }

    def _api_arguments(self) -> dict[str, object]:
        return {
            "etcd-servers": f"http://127.0.0.1:{self._etcd}",
            "bind-address": "127.0.0.1",
            "secure-port": self._port,
            "cert-dir": self._directory,
            "tls-cert-file": self._directory / "tls.crt",
            "tls-private-key-file": self._directory / "tls.key",
            "token-auth-file": self._directory / "tokens.csv",
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.0.0.0/24",
            "service-account-issuer": self.url,
            "service-account-key-file": self._directory / "tls.crt",
            "service-account-signing-key-file": self._directory / "tls.key",
            # One server alone needs no endpoints at an address that nobody else may use.
            "endpoint-reconciler-type": "none",
        }

    def _controller_arguments(self) -> dict[str, object]:
        return {
            "kubeconfig": self._directory / "kubeconfig",
            "cert-dir": self._directory,
            "bind-address": "127.0.0.1",
            "secure-port": free_ports(1)[0],
            "leader-elect": "false",
            "service-account-private-key-file": self._directory / "tls.key",
        }

    def _kubeconfig(self) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "here",
                    "cluster": {"server": self.url, "certificate-authority": str(self.ca)},
                }
            ],
            "users": [{"name": "root", "user": {"token": self.token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "root"}}],
            "current-context": "here",
        }

    def _is_ready(self) -> bool:
        try:
            return self.call("GET", "/readyz").status_code == 200
        except requests.ConnectionError:
            return False

    def _logs(self) -> str:
        files = sorted(self._directory.glob("*.log"))
        return "".join(
            f"\n--- {file.name}\n{file.read_text(errors='replace')[-2000:]}" for file in files
        )


def _holds(there: Object, condition: str) -> bool:
    conditions = there.get("status", {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)
