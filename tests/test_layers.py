"""Imports point down: never up, never sideways, also not from inside a function."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "anabranch"

LAYERS: list[set[str]] = [
    {"errors", "clock", "booleans"},
    {"protocol", "storage"},
    {"schema", "predicates", "deletion_vectors"},
    {"log"},
    {"data_skipping"},
    {"snapshot"},
    {"uniform"},
    {"transaction"},
    {"spark"},
    {"change_feed"},
    {"commands"},
    {"streaming"},
    {"tables", "sql"},
    {"callbacks", "connect"},
    {"sessions"},
    {"auto", "server"},
    {"cli"},
    {"__main__"},
]
"""Lowest first. Packages of one layer do not import each other."""

RE_EXPORTS = {"__init__", "exceptions"}
"""Modules that only gather names for users; anything may stand in them. Of ours, `auto` alone may import them: it
answers for modules of delta-spark's of the same names."""

WITHOUT_SPARK = {name for layer in LAYERS[:8] for name in layer}
PYSPARK_BELOW_SPARK = ("pyspark.sql.types", "pyspark.errors")
MUST_BE_HANDED_IN = {"os", "time", "random", "uuid", "datetime.datetime.now"}

RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = sorted(SOURCE.rglob("*.py"))


def package_of(module: Path) -> str:
    """`errors` for errors/log.py, `clock` for clock.py."""
    return module.relative_to(SOURCE).with_suffix("").parts[0]


def imports_of(module: Path) -> set[str]:
    """Dotted names a module imports, also inside functions and under TYPE_CHECKING."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports of ours are absolute"
            found.add(str(node.module))
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(module: Path) -> None:
    """A module imports its own package and packages of lower layers."""
    package = package_of(module)
    if package in RE_EXPORTS:
        return
    assert package in RANK, f"{package} has no layer yet"
    for name in imports_of(module):
        parts = name.split(".")
        if parts[0] != "anabranch" or len(parts) == 1:
            continue
        target = parts[1]
        if target == "__version__" or (package == "auto" and target in RE_EXPORTS):
            continue
        assert target == package or RANK[target] < RANK[package], f"{package} imports {name}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_layers_below_spark_hold_no_session(module: Path) -> None:
    """From `transaction` down nothing needs Spark running."""
    if package_of(module) not in WITHOUT_SPARK:
        return
    for name in imports_of(module):
        if name.split(".")[0] == "pyspark":
            allowed = name in {"pyspark", "pyspark.sql"} or name.startswith(PYSPARK_BELOW_SPARK)
            assert allowed, f"{module} imports {name}"


def test_other_projects_that_are_imported_are_dependencies() -> None:
    """What others pin too, or need another release of, is not to be asked for without need."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [each for group in ("connect", "demo", "iceberg") for each in project["optional-dependencies"][group]]
    declared = {re.split(r"\W", each.replace("-", "_"))[0] for each in [*project["dependencies"], *extras]}
    imported = {name.split(".")[0] for module in MODULES for name in imports_of(module)}
    others = imported - set(sys.stdlib_module_names) - {"anabranch", "delta", "__future__"}
    assert others - declared == {"py4j"}, "PySpark brings Py4J"


@pytest.mark.parametrize("package", ["log", "snapshot", "transaction"])
def test_time_and_chance_are_handed_in(package: str) -> None:
    """What decides a race can be replayed: no clock, random source or environment of its own."""
    for module in (SOURCE / package).rglob("*.py"):
        direct = imports_of(module) & MUST_BE_HANDED_IN
        allowed = {"random"} if package == "transaction" else set()  # only as the type of an argument
        assert direct <= allowed, f"{module} imports {direct}"


def test_packages_hold_nothing_in_their_init() -> None:
    """`__init__.py` holds only imports; those of the package and of its errors load what is asked for by name."""
    for module in set(SOURCE.rglob("__init__.py")) - {SOURCE / "__init__.py", SOURCE / "errors" / "__init__.py"}:
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            names = [target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
            assert is_docstring or names == ["__all__"] or isinstance(node, (ast.Import, ast.ImportFrom)), module
