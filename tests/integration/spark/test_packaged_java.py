"""A machine without Java: Spark runs on the packaged runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from spark_exports.order import LakeSettings
from spark_exports.session import session_of

lake = LakeSettings(
    name="default", warehouse="", catalog={}, spark_master="local[2]",
    spark_conf={"spark.driver.memory": "1g"},
)
spark = session_of(lake, "packaged", Path(sys.argv[1]))
doubled = spark.range(1000, numPartitions=2).mapInArrow(lambda batches: batches, "id long")
system = spark.sparkContext._jvm.System
print("home", system.getenv("JAVA_HOME"))
print("rows", doubled.selectExpr("id % 10 AS k").groupBy("k").count().count(), doubled.count())
spark.stop()
"""
TOOLS = ("bash", "sh", "dirname", "ps", "rm", "chmod", "uname", "cat", "env")
TIMEOUT_S = 300


def test_spark_runs_where_there_is_no_java(tmp_path: Path) -> None:
    """Batches go through Python workers, too: they are told of their python by the same way."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool) or tool)
    hidden = {name: value for name, value in os.environ.items() if not name.startswith("JAVA")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "state dir")],
        env=hidden | {"PATH": str(tools)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert f"home {tmp_path}/state dir/jre" in done.stdout
    assert "rows 10 1000" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state dir", "tools"]
