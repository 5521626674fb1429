"""roll-store.sh before a kubectl that stands in: which nodes are restarted, when, and when not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.terraform.built_provider import ROOT

SCRIPT = ROOT / "deploy/terraform/modules/platform/roll-store.sh"
KUBECTL = """#!/bin/sh
shift 2  # --namespace NAMESPACE
echo "$*" >>"$STATE/asked"
case "$*" in
  "get statefulsets"*) for id in 1 2 3; do echo "statefulset.apps/mq-store-$id"; done ;;
  "get statefulset.apps/"*) printf new ;;
  "get pods"*) echo pod/mq-store-1-0 ;;
  "get pod/"*jsonpath*) cat "$STATE/$(basename "$2")" ;;
  "get pod/"*) test -e "$STATE/$(basename "$2")" ;;
  "delete pod/"*) printf new >"$STATE/$(basename "$2")" ;;
  *"store wait") test ! -e "$STATE/unwell" ;;
esac
"""
"""Pods are files with the revision that they have."""


class Kubectl:
    """A kubectl that records its calls, and the pods of nodes 1 to 3."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = directory / "bin/kubectl"
        self._program.parent.mkdir()
        self._program.write_text(KUBECTL)
        self._program.chmod(0o755)
        for node in (1, 2, 3):
            self.has(node, "old")

    def has(self, node: int, revision: str) -> None:
        (self._directory / f"mq-store-{node}-0").write_text(revision)

    def unwell(self) -> None:
        """`packetboat store wait` fails from now on."""
        (self._directory / "unwell").touch()

    def run(self) -> subprocess.CompletedProcess[str]:
        path = f"{self._program.parent}:{os.environ['PATH']}"
        return subprocess.run(
            [shutil.which("sh") or "sh", SCRIPT, "mq-system", "mq"],
            env=os.environ | {"PATH": path, "STATE": str(self._directory)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def steps(self) -> list[str]:
        """Restarts and looks, in order."""
        asked = (self._directory / "asked").read_text().splitlines()
        found = []
        for line in asked:
            verb, target, *_ = line.split()
            if verb == "delete":
                found.append(f"restart {target.removeprefix('pod/mq-store-').removesuffix('-0')}")
            elif verb == "exec":
                found.append(line.rpartition(" ")[2])
        return found


@pytest.fixture
def kubectl(tmp_path: Path) -> Kubectl:
    return Kubectl(tmp_path)


def test_each_node_waits_until_all_are_well(kubectl: Kubectl) -> None:
    done = kubectl.run()
    assert done.returncode == 0, done.stderr
    assert kubectl.steps() == [
        *("wait", "restart 1", "wait", "restart 2", "wait", "restart 3"),
        *("wait", "balance"),
    ]


def test_a_node_that_is_as_it_should_be_stays(kubectl: Kubectl) -> None:
    kubectl.has(1, "new")
    kubectl.has(3, "new")
    assert kubectl.run().returncode == 0
    assert kubectl.steps() == ["wait", "restart 2", "wait", "balance"]


def test_nothing_is_restarted_while_a_node_is_missing(kubectl: Kubectl) -> None:
    kubectl.unwell()
    assert kubectl.run().returncode != 0
    assert kubectl.steps() == ["wait"]
