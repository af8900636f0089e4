"""`delta` has every public name of the modules of the published delta-spark wheel."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.auto.delta_modules import CONTENTS, DELTA_VERSION, configure_spark_with_delta_pip

Run = Callable[..., Any]

WHEEL = f"delta-spark=={DELTA_VERSION}"
LEFT_OUT = {"cast_types", "copyright", "annotations"}


@pytest.fixture(scope="session")
def published(request: pytest.FixtureRequest) -> zipfile.ZipFile:
    folder = request.config.cache.mkdir("delta-spark-wheel")
    wheel = next(iter(folder.glob(f"*-{DELTA_VERSION}-*.whl")), None) or _download(folder)
    return zipfile.ZipFile(wheel)


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), WHEEL]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        pytest.skip(f"not run: {WHEEL} could not be fetched: {outcome.stderr.strip().splitlines()[-1:]}")
    return next(iter(folder.glob(f"*-{DELTA_VERSION}-*.whl")))


def _public_names(source: str) -> set[str]:
    """What `from module import *` would bring, but for what only type checkers see."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


FOR_THEMSELVES = {
    "delta._typing": {"Dict", "Optional", "Union", "Column"},
    "delta.connect": {"delta"},
    "delta.exceptions": {"is_remote_only", "delta"},
    "delta.exceptions.base": {"PySparkException"},
    "delta.pip_utils": {"List", "Optional", "SparkSession"},
}
"""What their modules import for their own use, in modules without star imports."""


@pytest.mark.parametrize(
    "module",
    ["delta", "delta._typing", "delta.connect", "delta.exceptions", "delta.exceptions.base", "delta.pip_utils",
     "delta.tables", "delta.version"],
)  # fmt: skip
def test_every_public_name_is_there(published: zipfile.ZipFile, python: Run, module: str) -> None:
    path = module.replace(".", "/")
    files = set(published.namelist())
    source = published.read(f"{path}.py" if f"{path}.py" in files else f"{path}/__init__.py").decode()
    done = python(
        "-c",
        "from anabranch.auto.import_hook import install; install()\n"
        f"import json, importlib; print(json.dumps(dir(importlib.import_module({module!r}))))",
    )
    missing = _public_names(source) - set(json.loads(done.stdout)) - FOR_THEMSELVES.get(module, set())
    assert missing == set()


@pytest.mark.parametrize("module", ["delta.exceptions.captured", "delta.connect.exceptions", "delta.connect.tables"])
def test_every_class_of_an_inner_module_is_there(published: zipfile.ZipFile, module: str) -> None:
    source = published.read(f"{module.replace('.', '/')}.py").decode()
    classes = {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    assert len(classes) >= 4
    assert classes <= set(CONTENTS[module]())


def test_the_builder_gets_other_packages_and_no_jar() -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder()
    assert configure_spark_with_delta_pip(builder) is builder
    assert builder._options == {}
    assert configure_spark_with_delta_pip(builder, extra_packages=["a:b:1", "c:d:2"]) is builder
    assert builder._options == {"spark.jars.packages": "a:b:1,c:d:2"}
