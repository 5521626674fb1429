"""The settings of a session, without one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from spark_exports import java, session
from spark_exports.java import Java
from spark_exports.order import LakeSettings
from spark_exports.session import conf_of, environment_of, is_local, memory_bytes

GIB = 1024**3


def lake(master: str = "local[2]", **conf: str) -> LakeSettings:
    return LakeSettings(
        name="default", warehouse="/lake", catalog={}, spark_master=master, spark_conf=conf
    )


@pytest.fixture
def _some_java(monkeypatch: pytest.MonkeyPatch) -> None:
    assert java.java_of is session.java_of
    monkeypatch.setattr(session, "java_of", lambda environ, state: Java(Path("/jdk"), 17))


def test_what_an_operator_sets_wins(tmp_path: Path) -> None:
    told = LakeSettings(
        name="default",
        warehouse="/lake",
        catalog={},
        spark_master="local[2]",
        spark_conf={"spark.driver.memory": "9g", "spark.master": "local[7]"},
    )
    conf = conf_of(told, tmp_path)
    assert (conf["spark.driver.memory"], conf["spark.master"]) == ("9g", "local[7]")
    assert conf["spark.sql.session.timeZone"] == "UTC"


def test_nothing_of_it_is_outside_of_its_directory(tmp_path: Path) -> None:
    conf = conf_of(lake(), tmp_path)
    for setting in ("spark.sql.warehouse.dir", "spark.driver.defaultJavaOptions"):
        assert str(tmp_path) in conf[setting]
    assert conf["spark.sql.catalogImplementation"] == "in-memory"


def test_only_a_local_master_is_bound_to_loopback(tmp_path: Path) -> None:
    assert conf_of(lake(), tmp_path)["spark.driver.bindAddress"] == "127.0.0.1"
    cluster = conf_of(lake("spark://there:7077"), tmp_path)
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.hadoop.fs.defaultFS"} & {
        *cluster
    }


@pytest.mark.usefixtures("_some_java")
def test_workers_are_of_our_python_unless_told_otherwise(tmp_path: Path) -> None:
    conf = conf_of(lake(), tmp_path)
    assert environment_of(conf, {}, tmp_path) == {
        "JAVA_HOME": "/jdk",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_AUTH_SOCKET_TIMEOUT": "120",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    changed = environment_of(conf, {"PYSPARK_PYTHON": "/own"}, tmp_path)
    assert changed["PYSPARK_PYTHON"] == "/own"
    conf["spark.pyspark.python"] = "/told"
    changed = environment_of(conf, {"PYSPARK_PYTHON": "/own"}, tmp_path)
    assert changed["PYSPARK_PYTHON"] == "/told"


@pytest.mark.usefixtures("_some_java")
def test_a_cluster_finds_its_own_way_to_us(tmp_path: Path) -> None:
    conf = conf_of(lake("spark://there:7077"), tmp_path)
    assert "SPARK_LOCAL_IP" not in environment_of(conf, {}, tmp_path)


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*, 3]", True), ("local-cluster[1,1,1024]", False), ("yarn", False)],
)
def test_which_masters_are_local(master: str, local: bool) -> None:
    assert is_local(master) is local


@pytest.mark.parametrize(
    ("machine", "heap"), [(GIB, "1024m"), (12 * GIB, "3072m"), (512 * GIB, "4096m")]
)
def test_the_heap_goes_by_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: int, heap: str
) -> None:
    monkeypatch.setattr(session, "memory_bytes", lambda: machine)
    assert conf_of(lake(), tmp_path)["spark.driver.memory"] == heap


def test_a_container_has_what_it_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(session, "_CGROUP_LIMITS", (str(limit),))
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert memory_bytes() == whole
    limit.write_text("max\n")
    assert memory_bytes() == whole
    limit.write_text("1048576\n")
    assert memory_bytes() == 1048576
