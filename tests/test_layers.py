"""Imports point down: never up, never sideways, also not from inside a function."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "anabranch"

LAYERS: list[set[str]] = [
    {"pyspark_release", "text_format"},
    {"display_tables", "java_search", "arrow_pool"},
    {"errors", "clock", "patches"},
    {"booleans", "cached_property", "progress"},
    {"protocol", "storage"},
    {"schema", "predicates", "deletion_vectors"},
    {"log"},
    {"data_skipping"},
    {"snapshot"},
    {"uniform"},
    {"transactions"},
    {"spark"},
    {"connect_messages"},
    {"change_feed"},
    {"commands"},
    {"streaming", "table_report"},
    {"tables", "sql"},
    {"callbacks"},
    {"sessions", "reports", "table_transactions"},
    {"auto", "server"},
    {"cli"},
    {"__main__"},
]
"""Lowest first. Packages of one layer do not import each other."""

RE_EXPORTS = {"__init__", "exceptions"}
"""Modules that only gather names for users, from any layer. Of ours, `auto` alone may import them: it replaces
delta-spark's modules of the same names."""

FOLDERS_THAT_STACK: dict[str, list[str]] = {
    "callbacks": ["message_handlers"],
    "cli": ["rows", "fsck", "demo", "programs", "statements"],
    "commands": [
        *("read", "definition", "vacuum", "describe", "optimize", "dml", "merge", "write", "create", "other_formats"),
        *("alter", "drop_feature", "restore", "convert", "clone", "multi_statement"),
    ],
    "spark": ["gateway", "conditions", "extension", "layout", "write", "rows", "native", "session"],
    "sql": ["grammar", "execute", "own"],
    "storage": ["local", "object", "hadoop", "opening"],
    "transactions": ["rows", "conflicts", "commit", "multi_statement"],
}
"""For each package in this table its folders, lowest first: a folder imports only from folders before it."""

OF_DEPENDENCIES = {"py4j", "google", "markupsafe", "vl_convert"}
"""PySpark brings Py4J, and its Connect client protobuf; Jinja2 brings MarkupSafe, and vl-convert-python is imported as
vl_convert."""

WITHOUT_SPARK = {name for layer in LAYERS[1:11] for name in layer}
PYSPARK_BELOW_SPARK = ("pyspark.sql.types", "pyspark.errors")
MUST_BE_HANDED_IN = {"os", "time", "random", "uuid", "datetime.datetime.now"}

RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
MODULES = sorted(SOURCE.rglob("*.py"))


def package_of(module: Path) -> str:
    """`errors` for errors/log.py, `clock` for clock.py."""
    return module.relative_to(SOURCE).with_suffix("").parts[0]


@functools.cache
def tree_of(module: Path) -> ast.Module:
    """The syntax of a module, parsed once for all tests."""
    return ast.parse(module.read_text(encoding="utf-8"))


@functools.cache
def imports_of(module: Path) -> frozenset[str]:
    """Dotted names a module imports, also inside functions and under TYPE_CHECKING."""
    names: set[str] = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports of ours are absolute"
            names.add(str(node.module))
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def imports() -> Iterator[tuple[Path, str]]:
    """Each module with each name that it imports."""
    return ((module, name) for module in MODULES for name in sorted(imports_of(module)))


def points_down(package: str, name: str) -> bool:
    """Whether a module of `package` may import `name`: its own package, or one of a lower layer."""
    project, _, below = name.partition(".")
    target = below.split(".")[0]
    if project != "anabranch" or target in {"", "__version__"} or package in RE_EXPORTS:
        return True
    if package == "auto" and target in RE_EXPORTS:
        return True
    return target == package or RANK[target] < RANK[package]


def test_every_package_has_a_layer() -> None:
    assert {package_of(module) for module in MODULES} - RE_EXPORTS - RANK.keys() == set()


def test_imports_point_down() -> None:
    """A module imports its own package and packages of lower layers."""
    upward = [
        f"{module.relative_to(SOURCE)} imports {name}"
        for module, name in imports()
        if not points_down(package_of(module), name)
    ]
    assert upward == []


def modules_by_part(package: str) -> dict[str, list[Path]]:
    """The modules of each part of a package. A part is a folder of the package, or a module directly in it."""
    parts: dict[str, list[Path]] = {}
    for module in sorted((SOURCE / package).rglob("*.py")):
        if module.parent != SOURCE / package or module.name != "__init__.py":
            part = module.relative_to(SOURCE / package).with_suffix("").parts[0]
            parts.setdefault(part, []).append(module)
    return parts


def imports_between_parts(package: str) -> dict[str, set[str]]:
    """The other parts of the package that each part imports."""
    parts = modules_by_part(package)
    prefix = f"anabranch.{package.replace('/', '.')}."
    imported = {
        part: {
            name.removeprefix(prefix).split(".")[0]
            for module in modules
            for name in imports_of(module)
            if name.startswith(prefix)
        }
        for part, modules in parts.items()
    }
    return {part: (names & parts.keys()) - {part} for part, names in imported.items()}


@pytest.mark.parametrize("package", sorted(FOLDERS_THAT_STACK))
def test_folders_of_a_package_stack(package: str) -> None:
    """Folders form no circle, nor do folders and the modules beside them, and the table states the order."""
    edges = imports_between_parts(package)
    try:
        order = list(graphlib.TopologicalSorter(edges).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"circle of imports in {package}: {' -> '.join(reversed(error.args[1]))}")
    stack = FOLDERS_THAT_STACK[package]
    folders = {part for part in edges if (SOURCE / package / part).is_dir()}
    assert set(stack) == folders
    reachable: dict[str, set[str]] = {}
    for part in order:
        reachable[part] = edges[part].union(*(reachable[below] for below in edges[part]))
    upward = {folder: reachable[folder] & set(stack[rank:]) for rank, folder in enumerate(stack)}
    assert {folder: above for folder, above in upward.items() if above} == {}


def test_every_folder_of_a_package_is_in_the_table() -> None:
    folders = {path.parent.relative_to(SOURCE).parts for path in SOURCE.glob("*/*/__init__.py")}
    assert {package for package, _ in folders} == FOLDERS_THAT_STACK.keys()


def test_modules_of_a_package_form_no_circle() -> None:
    names = {".".join(("anabranch", *path.relative_to(SOURCE).with_suffix("").parts)): path for path in MODULES}
    edges = {name: set(imports_of(path) & names.keys()) - {name} for name, path in names.items()}
    list(graphlib.TopologicalSorter(edges).static_order())


def test_layers_below_spark_hold_no_session() -> None:
    """Nothing from `transactions` down needs Spark running."""
    with_session = [
        f"{module.relative_to(SOURCE)} imports {name}"
        for module, name in imports()
        if package_of(module) in WITHOUT_SPARK
        and name.split(".")[0] == "pyspark"
        and name not in {"pyspark", "pyspark.sql"}
        and not name.startswith(PYSPARK_BELOW_SPARK)
    ]
    assert with_session == []


def test_other_projects_that_are_imported_are_dependencies() -> None:
    """The other way round, no import needs a project that pyproject.toml does not name."""
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        line for group in ("connect", "demo", "iceberg", "report") for line in project["optional-dependencies"][group]
    ]
    declared = {re.split(r"\W", line.replace("-", "_"))[0] for line in [*project["dependencies"], *extras]}
    imported = {name.split(".")[0] for _, name in imports()}
    others = imported - set(sys.stdlib_module_names) - {"anabranch", "delta", "__future__"}
    assert others - declared == OF_DEPENDENCIES


def test_time_zones_are_those_of_the_jvm() -> None:
    """Python's data of zones is another one: a decision about rows by it would miss some. The command line has no JVM."""
    users = {package_of(module) for module, name in imports() if name.split(".")[0] == "zoneinfo"}
    assert users == {"cli"}


@pytest.mark.parametrize("package", ["log", "snapshot", "transactions"])
def test_time_and_chance_are_handed_in(package: str) -> None:
    """What decides a race can be replayed: no clock, random source or environment of its own."""
    for module in (SOURCE / package).rglob("*.py"):
        direct = imports_of(module) & MUST_BE_HANDED_IN
        allowed = {"random"} if package == "transactions" else set()  # only as the type of an argument
        assert direct <= allowed, f"{module} imports {direct}"


def test_packages_hold_nothing_in_their_init() -> None:
    """`__init__.py` holds only imports; those of the package and of its errors load names on first use."""
    for module in set(SOURCE.rglob("__init__.py")) - {SOURCE / "__init__.py", SOURCE / "errors" / "__init__.py"}:
        for node in tree_of(module).body:
            is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            names = [target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
            assert is_docstring or names == ["__all__"] or isinstance(node, (ast.Import, ast.ImportFrom)), module
