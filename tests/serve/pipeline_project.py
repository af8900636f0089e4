"""A project of declarative pipelines on disk, and runs of it by PySpark's own command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

RELEASE = tuple(map(int, pyspark.__version__.split(".")[:2]))
FIRST_RELEASE = (4, 1)
FIRST_WITH_AUTO_CDC = (4, 2)
FIRST_WITH_SCD2 = (4, 3)
PIPELINES = (sys.executable, "-m", "pyspark.pipelines.cli")


@dataclass(frozen=True)
class Project:
    """A folder with a specification and definitions; checkpoints are beside them."""

    folder: Path

    def define(self, **definitions: str) -> None:
        """Write a file for each definition. A name ends with `_sql` for a file of SQL."""
        files = self.folder / "definitions"
        files.mkdir(parents=True, exist_ok=True)
        for name, text in definitions.items():
            file = f"{name.removesuffix('_sql')}.sql" if name.endswith("_sql") else f"{name}.py"
            (files / file).write_text(text)
        spec = {
            "name": "shop",
            "storage": (self.folder / "checkpoints").as_uri(),
            "libraries": [{"glob": {"include": "definitions/**"}}],
            # Between attempts of a flow that fails, which are five seconds or more by default.
            "configuration": {"spark.sql.pipelines.execution.watchdog.minRetryTime": "1s"},
        }
        # JSON is YAML too.
        self.spec.write_text(json.dumps(spec))

    @property
    def spec(self) -> Path:
        return self.folder / "spark-pipeline.yml"

    def command(self, *words: str) -> list[str]:
        """The arguments of PySpark's command: `run` unless the first one says otherwise."""
        words = words if words and not words[0].startswith("-") else ("run", *words)
        return [words[0], "--spec", str(self.spec), *words[1:]]

    def run(self, *words: str, program: Sequence[str] = PIPELINES, **environment: str) -> str:
        """The output of a run that succeeds."""
        outcome = self.attempt(*words, program=program, environment=environment)
        assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr[-4000:]
        return outcome.stdout + outcome.stderr

    def attempt(
        self, *words: str, environment: Mapping[str, str], program: Sequence[str] = PIPELINES
    ) -> subprocess.CompletedProcess[str]:
        """A run by that program, which may fail."""
        return subprocess.run(
            [*program, *self.command(*words)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            cwd=self.folder,
        )
