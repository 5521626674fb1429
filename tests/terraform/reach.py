"""Decides, like a network plugin, which connections the NetworkPolicies allow."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

from tests.terraform.manifests import Manifests, Object


class Reach:
    """The allowed connections of one set of manifests.

    Pods are named by their component, others by labels.
    """

    def __init__(self, manifests: Manifests) -> None:
        self._policies = manifests.of_kind("NetworkPolicy")
        self._labels = {
            component: template["metadata"]["labels"]
            for component, template in manifests.workloads()
        }

    def between(self, source: str, target: str, port: int) -> bool:
        """Return whether the source may send a connection, and the target may receive it."""
        there = {"labels": self._labels[target], "ours": True}
        here = {"labels": self._labels[source], "ours": True}
        return self._lets(source, "Egress", there, port) and self._lets(
            target, "Ingress", here, port
        )

    def out(self, source: str, address: str, port: int) -> bool:
        """Return whether a connection to an address outside the cluster is let out."""
        return self._lets(source, "Egress", {"address": address}, port)

    def into(self, target: str, address: str, port: int) -> bool:
        """Return whether a connection from outside is let in."""
        return self._lets(target, "Ingress", {"address": address}, port)

    def from_namespace(self, namespace: str, target: str, port: int) -> bool:
        """Return whether a pod of another namespace is let in."""
        return self._lets(target, "Ingress", {"labels": {}, "namespace": namespace}, port)

    def _lets(self, component: str, direction: str, other: Object, port: int) -> bool:
        bound = [
            policy["spec"]
            for policy in self._policies
            if direction in policy["spec"]["policyTypes"]
            and _selects(policy["spec"]["podSelector"], self._labels[component])
        ]
        assert bound, f"nothing binds {component}"
        side = "to" if direction == "Egress" else "from"
        return any(
            _is_port(rule, port) and _is_peer(rule.get(side), other)
            for spec in bound
            for rule in spec.get(direction.lower(), [])
        )


# In Kubernetes, no ports mean all ports, and no peers mean all peers.
def _is_port(rule: Object, port: int) -> bool:
    return not rule.get("ports") or any(
        each["port"] <= port <= each.get("endPort", each["port"])
        for each in rule["ports"]
        if each["protocol"] == "TCP"
    )


def _is_peer(peers: list[Object] | None, other: Object) -> bool:
    return not peers or any(_fits(peer, other) for peer in peers)


def _fits(peer: Object, other: Object) -> bool:
    if "ipBlock" in peer:
        return "address" in other and _in_block(peer["ipBlock"], other["address"])
    if "address" in other:
        return False
    if "namespaceSelector" in peer:
        wanted = peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
        if wanted != other.get("namespace"):
            return False
    elif not other.get("ours"):
        return False
    return _selects(peer.get("podSelector", {}), other["labels"])


def _in_block(block: Object, address: str) -> bool:
    found = ip_address(address)
    return found in ip_network(block["cidr"]) and not any(
        found in ip_network(each) for each in block.get("except", [])
    )


def _selects(selector: Object, labels: dict[str, Any]) -> bool:
    return all(
        labels.get(name) == value for name, value in selector.get("matchLabels", {}).items()
    ) and all(
        labels.get(each["key"]) in each["values"] for each in selector.get("matchExpressions", [])
    )
