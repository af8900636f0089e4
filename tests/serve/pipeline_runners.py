"""The two ways to run a pipeline: as a client of `anabranch serve`, and as Spark's own program in an environment that is switched on."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyspark
from pyspark.sql import SparkSession

from auto.environments import new_environment
from serve.pipeline_project import PIPELINES, Project
from serve.served import Served, client, served

SERVED, OWN_PROGRAM = "served", "own program"
WAYS = [SERVED, OWN_PROGRAM]


class Statements(Protocol):
    """Runs SQL beside the pipelines."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]: ...

    def run(self, statement: str) -> None: ...


@dataclass(frozen=True)
class PipelineRunner:
    """Runs the pipelines of a project, and statements on its tables."""

    project: Project
    by: Statements
    warehouse: Path
    environment: dict[str, str]
    """The variables of PySpark's command."""
    program: Sequence[str] = PIPELINES
    server: Served | None = None
    """None where the program starts its own."""

    def name(self, table: str) -> str:
        """The table of that name, as a statement, or the definition of a pipeline, may call it.

        The catalog of a program of its own is open in one process at a time.
        """
        return table if self.server else f"delta.`{self.warehouse / table}`"

    def tables(self) -> set[str]:
        """The names of all tables."""
        if self.server:
            return {str(row[1]) for row in self.by.rows("SHOW TABLES")}
        return set(os.listdir(self.warehouse)) if self.warehouse.exists() else set()

    def pipeline(self, *words: str) -> str:
        """The output of a run that succeeds."""
        return self.project.run(*words, program=self.program, **self.environment)

    def attempt(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A run, which may fail."""
        return self.project.attempt(*words, program=self.program, environment=self.environment)

    @contextlib.contextmanager
    def another_client(self) -> Iterator[Statements]:
        """One for another thread."""
        if self.server is None:
            yield self.by
            return
        with client(self.server, "connect") as other:
            yield other


@dataclass(frozen=True)
class SessionStatements:
    """Statements of a session."""

    spark: SparkSession

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(statement).collect()]

    def run(self, statement: str) -> None:
        self.spark.sql(statement)


@contextlib.contextmanager
def served_runner(folder: Path) -> Iterator[PipelineRunner]:
    """A client of `anabranch serve`, whose catalog is Hive's."""
    warehouse = folder / "warehouse"
    with served(warehouse) as server, client(server, "connect") as by:
        yield PipelineRunner(
            project=Project(folder / "shop"),
            by=by,
            warehouse=warehouse,
            environment={"SPARK_REMOTE": server.connect_url},
            server=server,
        )


def own_program_runner(spark: SparkSession, folder: Path) -> PipelineRunner:
    """`spark-pipelines` in an environment that is switched on: each run is a driver of its own over one catalog of Hive's.

    Statements run in `spark`, which has another catalog.
    """
    environment, warehouse, settings = new_environment(folder / "environment"), folder / "warehouse", folder / "conf"
    settings.mkdir()
    metastore = f"jdbc:derby:;databaseName={folder / 'metastore'};create=true"
    (settings / "spark-defaults.conf").write_text(
        f"spark.sql.warehouse.dir {warehouse}\nspark.sql.catalogImplementation hive\nspark.ui.enabled false\n"
        f"spark.hadoop.javax.jdo.option.ConnectionURL {metastore}\nspark.sql.shuffle.partitions 2\n"
        "spark.sql.session.timeZone UTC\n"
    )
    switched_on = [str(environment.python), "-m", "anabranch", "auto", "on"]
    subprocess.run(switched_on, check=True, capture_output=True, timeout=120, cwd=folder)
    variables = {
        "PYSPARK_PYTHON": str(environment.python),
        "SPARK_CONF_DIR": str(settings),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    program = (str(Path(pyspark.__file__).parent / "bin" / "spark-pipelines"),)
    return PipelineRunner(
        project=Project(folder / "shop"),
        by=SessionStatements(spark),
        warehouse=warehouse,
        environment=variables,
        program=program,
    )
