"""The file of lakes: both forms, and every mistake at once, each with its place."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from spark_exports.order import LakeSettings
from spark_exports.runner.lakes import LakesError, lakes_in

CATALOG = {"type": "rest", "uri": "https://catalog.example.com"}
LAKE = {"name": "cold", "warehouse": "s3://bucket/lake", "catalog": CATALOG}


def of_json(tmp_path: Path, said: object) -> dict[str, LakeSettings]:
    path = tmp_path / "lakes.json"
    path.write_bytes(msgspec.json.encode(said))
    return lakes_in(path)


def test_json_and_toml_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "lakes.toml"
    path.write_text(
        """
        [[lakes]]
        name = "cold"
        warehouse = "s3://bucket/lake"
        spark_master = "spark://spark:7077"
        catalog = { type = "rest", uri = "https://catalog.example.com" }
        storage = { "s3.endpoint" = "https://s3.example.com" }
        [lakes.spark_conf]
        "spark.executor.memory" = "4g"
        """
    )
    lake = LakeSettings(
        "cold",
        "s3://bucket/lake",
        CATALOG,
        {"s3.endpoint": "https://s3.example.com"},
        "spark://spark:7077",
        {"spark.executor.memory": "4g"},
    )
    assert lakes_in(path) == {"cold": lake}
    assert of_json(tmp_path, [lake]) == {"cold": lake}
    assert of_json(tmp_path, {"lakes": [lake]}) == {"cold": lake}


def test_every_mistake_is_named_with_its_place(tmp_path: Path) -> None:
    said = [
        LAKE | {"name": "Not A Name", "warehouse": "ftp://x", "spark_master": "flink"},
        LAKE | {"warehouse": "relative", "catalog": {}, "wharehouse": "/x"},
        LAKE,
        LAKE | {"catalog": CATALOG | {"port": 5}},
        {"name": "half"},
        "none",
        LAKE | {"name": "empty-bucket", "warehouse": "s3:///x"},
    ]
    with pytest.raises(LakesError) as error:
        of_json(tmp_path, said)
    found = [line.split("lakes.json: ")[1].split(": ")[0] for line in str(error.value).split("\n")]
    assert found == [
        "lakes[0].name",
        "lakes[0].warehouse",
        "lakes[0].spark_master",
        "lakes[1].wharehouse",
        "lakes[1].warehouse",
        "lakes[1].catalog.type",
        "lakes[1].catalog.uri",
        "lakes[2].name",
        "lakes[3].catalog[...]",
        "lakes[4]",
        "lakes[5]",
        "lakes[6].warehouse",
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"lakes": {}}', "5"])
def test_what_is_no_list_of_lakes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lakes.json"
    path.write_text(text)
    with pytest.raises(LakesError, match=r"lakes\.json: "):
        lakes_in(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LakesError, match=r"none\.toml: No such file"):
        lakes_in(tmp_path / "none.toml")
