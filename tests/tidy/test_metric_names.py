"""Names of metrics follow Prometheus's rules; a setting adds those of 0.2."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from edge.exposition import OLD_NAMES, exposition
from spark_exports.runner.metrics import OldNames
from tests.tidy.test_alerts import SUFFIXES, families

RESERVED = ("_bucket", "_count", "_created", "_sum", "_total")


class Full(Collector):
    """Every family of the product, with a sample of each that has none yet."""

    def collect(self) -> Iterable[Metric]:
        for family in families():
            if not family.samples:
                for suffix in SUFFIXES.get(family.type, ()):
                    labels = {"le": "+Inf"} if suffix == "_bucket" else {}
                    family.add_sample(family.name + suffix, labels, 1.0)
            yield family


def page(*, old_names: bool = False) -> str:
    return exposition(Full(), old_names=old_names).decode()


def names(text: str) -> set[str]:
    return {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}


def test_only_counters_and_histograms_end_as_they_do() -> None:
    found = list(text_string_to_metric_families(page()))
    assert len(found) > 100
    for family in found:
        assert not family.name.endswith(RESERVED), family.name
        assert family.documentation, family.name


def test_promtool_finds_no_fault() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: Debian's package `prometheus` has it")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=page(), capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_no_created_series_are_told() -> None:
    assert "_created" not in page(old_names=True)


def test_old_names_are_told_beside_the_new_ones_where_that_is_set() -> None:
    new, both = page(), page(old_names=True)
    assert names(both) - names(new) == set(OLD_NAMES.values())
    assert names(new) >= set(OLD_NAMES)
    sample = next(line for line in new.splitlines() if line.startswith("packetboat_link_open "))
    assert sample.replace("_open", "_open_count") in both.splitlines()
    assert 'packetboat_subscribe_flush_rows_count_bucket{le="+Inf"} 0.0' in both.splitlines()


def test_a_runner_of_exports_tells_its_old_name_too() -> None:
    (old,) = OldNames().collect()
    assert [(sample.name, sample.value) for sample in old.samples] == [
        ("packetboat_export_runner_drivers_count", 0.0)
    ]
