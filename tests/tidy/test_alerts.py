"""Alerts and the dashboard speak of metrics there are, and each alert has its runbook."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import yaml
from prometheus_client import REGISTRY
from prometheus_client.core import Metric

from publish_forwarder.budget import Budget
from publish_forwarder.metrics import PublishMetrics
from store_nodes.node import metrics as store_metrics
from store_nodes.node.group import Group

ROOT = Path(__file__).parents[2]
PARTS = (
    *("appending", "auth", "cron", "edge", "gateway", "metadata", "outbox", "peering", "positions"),
    *(
        "publish_forwarder",
        "scheduler",
        "schemas",
        "spark_exports",
        "store_nodes",
        "subscribe_forwarder",
    ),
)
SUFFIXES = {
    "counter": ("_total",),
    "histogram": ("_bucket", "_count", "_sum"),
    "summary": ("_count", "_sum"),
    "gauge": ("",),
}
SECTIONS = ("What it means", "How to confirm it", "What to do", "When it is over")
METRIC = re.compile(r"\bpacketboat_[a-z_]+")


def alerts() -> list[dict[str, Any]]:
    text = (ROOT / "deploy/prometheus/rules.yaml").read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def named_on_dashboards() -> set[str]:
    found: set[str] = set()
    for path in sorted((ROOT / "deploy/grafana").glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        for panel in board["panels"]:
            for target in panel.get("targets", ()):
                found |= set(METRIC.findall(target["expr"]))
    return found


class Node:
    """One that has nothing, so that it can say what it would tell."""

    def summary(self) -> dict[str, object]:
        storage = dict.fromkeys(("raw_bytes", "settled_bytes", "live_bytes", "settles"), 0)
        return {
            "node": 1,
            "start": 1,
            "pending_bytes": 0,
            "damaged": None,
            "votes_lost": False,
            **dict.fromkeys(("connected", "lost", "installing", "waits_for"), ()),
            "disk": {"free_bytes": 0, "reserve_bytes": 0, "appends_refused": False},
            "storage": storage | {"scrubbed_bytes": 0},
            "log": {"bytes": 0, "flushes": 0, "flush_seconds": 0.0},
        }

    @property
    def groups(self) -> dict[int, Group]:
        return {}


def families() -> list[Metric]:
    """Return every metric family of the product's processes."""
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            if "prometheus_client" in path.read_text(encoding="utf-8"):
                importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    budget = cast(Budget, SimpleNamespace(refusals=0, held_bytes=0, held_messages=0))
    publishing = PublishMetrics(budget, lambda: 0)
    return [*REGISTRY.collect(), *publishing.collect(), *store_metrics.families(Node())]


def told() -> set[str]:
    """Return every sample of the product's processes."""
    return samples(families())


def samples(families: Iterable[Metric]) -> set[str]:
    return {one.name + suffix for one in families for suffix in SUFFIXES.get(one.type, ())}


def test_alerts_and_dashboards_name_metrics_there_are() -> None:
    named = {name for rule in alerts() for name in METRIC.findall(rule["expr"])}
    boards = named_on_dashboards()
    assert named
    assert boards
    assert (named | boards) - told() == set()


def test_every_alert_says_how_bad_it_is_and_what_happens() -> None:
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning"), rule["alert"]
        assert rule["annotations"]["summary"].endswith("."), rule["alert"]


def test_every_alert_has_its_runbook() -> None:
    for rule in alerts():
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert anchor == rule["alert"].lower(), rule["alert"]
        text = (ROOT / page).read_text(encoding="utf-8")
        found = re.search(rf"^## {rule['alert']}$(.*?)(?=^## |\Z)", text, re.M | re.S)
        assert found, f"{page} has no heading {rule['alert']}"
        said = re.findall(r"^\*\*(.+?)\.\*\*", found[1], re.M)
        assert tuple(said) == SECTIONS, f"{rule['alert']} says {said}"


def test_every_runbook_has_its_alert() -> None:
    pages = (ROOT / "docs/operations/runbooks").glob("*.md")
    texts = [page.read_text(encoding="utf-8") for page in pages if page.name != "README.md"]
    headings = {heading for text in texts for heading in re.findall(r"^## (.+)$", text, re.M)}
    assert headings == {rule["alert"] for rule in alerts()}
