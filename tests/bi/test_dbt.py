"""A dbt project on Delta tables: seeds, an incremental MERGE, a snapshot, tests, documentation.

By `scripts/test_bi.sh`, in an environment that has dbt.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from serve.served import client, served

pytest.importorskip("dbt.adapters.spark")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

PROJECT = Path(__file__).parent / "shop"
DBT = ["-m", "dbt.cli.main"]
LATER = """id,item,amount,changed_at
1,tea,3,2026-01-01 10:00:00
2,jam,9,2026-01-02 11:00:00
3,bread,1,2026-01-01 12:00:00
4,tea,5,2026-01-02 12:00:00
"""
ORDERS = [(1, "tea", 3), (2, "jam", 9), (3, "bread", 1), (4, "tea", 5)]


def made_project(folder: Path, output: dict[str, Any]) -> Path:
    project = folder / "shop"
    shutil.copytree(PROJECT, project)
    profile = {"shop": {"target": "dev", "outputs": {"dev": {"type": "spark", "schema": "shop", **output}}}}
    # JSON is YAML too.
    (project / "profiles.yml").write_text(json.dumps(profile))
    return project


def dbt(project: Path, command: list[str], *arguments: str) -> None:
    environment = {**os.environ, "DBT_PROFILES_DIR": str(project), "DO_NOT_TRACK": "1"}
    completed = subprocess.run(
        [*command, *arguments], cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert completed.returncode == 0, completed.stdout[-6000:] + completed.stderr[-3000:]


def build_twice(project: Path, command: list[str]) -> None:
    dbt(project, command, "build")
    (project / "seeds" / "raw_orders.csv").write_text(LATER)
    dbt(project, command, "build")


def test_by_thrift(tmp_path: Path) -> None:
    with served(tmp_path / "warehouse") as server:
        output = {"method": "thrift", "host": "127.0.0.1", "port": server.jdbc_port, "user": "ann", "threads": 2}
        project = made_project(tmp_path, output)
        command = [sys.executable, *DBT]
        build_twice(project, command)
        with client(server, "connect") as by:
            assert by.rows("SELECT id, item, amount FROM shop.orders ORDER BY id") == ORDERS
            assert by.rows("SELECT item, amount FROM shop.items ORDER BY item") == [
                ("bread", 1),
                ("jam", 9),
                ("tea", 8),
            ]
            assert by.rows("SELECT count(*) FROM shop.large_orders") == [(3,)]
            kept = by.rows(
                "SELECT amount, dbt_valid_to IS NULL FROM shop.orders_over_time WHERE id = 2 ORDER BY amount"
            )
            assert kept == [(2, False), (9, True)]
            operations = [row[4] for row in by.rows("DESCRIBE HISTORY shop.orders")]
            assert "MERGE" in operations
        dbt(project, command, "docs", "generate")
        nodes = json.loads((project / "target" / "catalog.json").read_text())["nodes"]
        assert list(nodes["model.shop.orders"]["columns"]) == ["id", "item", "amount", "changed_at"]


def test_in_a_session_of_its_own(tmp_path: Path) -> None:
    """Spark in dbt's process; `anabranch run` enables the session that dbt-spark makes."""
    output = {"method": "session", "host": "none", "threads": 1}
    project = made_project(tmp_path, output)
    command = [sys.executable, "-m", "anabranch", "run", *DBT]
    # Only a metastore that stays knows in the second process what the first has made.
    settings = project / "spark-conf"
    settings.mkdir()
    warehouse = project / "warehouse"
    (settings / "spark-defaults.conf").write_text(
        f"spark.sql.warehouse.dir {warehouse}\n"
        f"spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={project}/metastore;create=true\n"
        "spark.master local[2]\nspark.ui.enabled false\nspark.sql.shuffle.partitions 2\n"
        "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
    )
    os.environ["SPARK_CONF_DIR"] = str(settings)
    try:
        build_twice(project, command)
    finally:
        del os.environ["SPARK_CONF_DIR"]
    from deltalake import DeltaTable

    orders = DeltaTable(str(warehouse / "shop.db" / "orders"))
    assert "MERGE" in {commit["operation"] for commit in orders.history()}
