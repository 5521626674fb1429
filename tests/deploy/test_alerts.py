"""Every alert fires when what it is for is so, and nothing fires while all is well: judged by
Prometheus' own promtool, on made-up series."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.alert_cases import CASES, WELL, Case

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/rules.yaml"
FIRING = 'group by (alertname) (ALERTS{alertstate="firing"})'
TIMES = ("5m", "20m", "40m")


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("alerts: promtool is missing (Debian: apt-get install prometheus)")
    return found


def run(promtool: str, *arguments: str | Path) -> None:
    done = subprocess.run(
        [promtool, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def judged(name: str, case: Case, *times: str, fires: frozenset[str]) -> dict[str, Any]:
    """Return a test in the form that promtool reads."""
    series = WELL | case.wrong
    return {
        "name": name,
        "interval": "1m",
        "input_series": [
            {"series": each, "values": values} for each, values in series.items() if values
        ],
        "promql_expr_test": [
            {
                "expr": FIRING,
                "eval_time": time,
                "exp_samples": [
                    {"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(fires)
                ],
            }
            for time in times
        ],
    }


def test_the_rules_are_rules(promtool: str) -> None:
    run(promtool, "check", "rules", RULES)


def test_every_alert_has_a_case() -> None:
    assert {rule["alert"] for rule in alerts()} == set(CASES)


def test_no_alert_fires_while_all_is_well(promtool: str, tmp_path: Path) -> None:
    judge(promtool, tmp_path, judged("well", Case({}), *TIMES, fires=frozenset()))


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_when_it_should(promtool: str, tmp_path: Path, alert: str) -> None:
    """No other alert fires beside it but those that the case names."""
    case = CASES[alert]
    judge(promtool, tmp_path, judged(alert, case, TIMES[-1], fires=case.beside | {alert}))


def judge(promtool: str, folder: Path, test: dict[str, Any]) -> None:
    path = folder / "rules_test.yaml"
    document = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    run(promtool, "test", "rules", path)


def test_the_configuration_is_one(promtool: str) -> None:
    run(promtool, "check", "config", ROOT / "deploy/prometheus/prometheus.yaml")


def test_the_dashboard_asks_what_prometheus_understands(promtool: str, tmp_path: Path) -> None:
    board = json.loads((ROOT / "deploy/grafana/packetboat.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = [
        {"record": f"asked:{number}", "expr": expr.replace("$__rate_interval", "1m")}
        for number, expr in enumerate(asked)
    ]
    path = tmp_path / "asked.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": rules}]}))
    run(promtool, "check", "rules", path)
