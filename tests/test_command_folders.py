"""Folders of `commands` and of `sql` stack: one imports only from those before it, and modules form no circle."""

from __future__ import annotations

import graphlib
from pathlib import Path

import pytest

from test_layers import SOURCE, imports_of

FOLDERS_THAT_STACK: dict[str, list[str]] = {
    "commands": [
        "read",
        "definition",
        "vacuum",
        "describe",
        "optimize",
        "dml",
        "merge",
        "write",
        "create",
        "other_formats",
        "alter",
        "drop_feature",
        "restore",
        "convert",
        "clone",
    ],
    "sql": ["grammar", "execute", "own"],
}
"""For each package in this table its folders, lowest first: a folder imports only from folders before it."""

WITHOUT_FOLDERS = ["streaming", "tables"]


def module_name(module: Path) -> str:
    """`anabranch.log.segment` for log/segment.py."""
    return ".".join(("anabranch", *module.relative_to(SOURCE).with_suffix("").parts))


def imports_within(package: str) -> dict[str, set[str]]:
    """The modules of a package, with the others of the package that each imports."""
    modules = {module_name(path): path for path in (SOURCE / package).rglob("*.py") if path.name != "__init__.py"}
    return {name: set(imports_of(path) & modules.keys()) - {name} for name, path in modules.items()}


@pytest.mark.parametrize("package", [*FOLDERS_THAT_STACK, *WITHOUT_FOLDERS])
def test_modules_form_no_circle(package: str) -> None:
    try:
        list(graphlib.TopologicalSorter(imports_within(package)).static_order())
    except graphlib.CycleError as error:
        pytest.fail(f"circle of imports in {package}: {' -> '.join(reversed(error.args[1]))}")


@pytest.mark.parametrize("package", FOLDERS_THAT_STACK)
def test_folders_stack(package: str) -> None:
    folders = FOLDERS_THAT_STACK[package]
    rank = {folder: number for number, folder in enumerate(folders)}
    assert {path.name for path in (SOURCE / package).iterdir() if (path / "__init__.py").exists()} == set(folders)

    def folder_of(module: str) -> str:
        return module.removeprefix(f"anabranch.{package}.").split(".")[0]

    upward = [
        f"{module} imports {name}"
        for module, names in imports_within(package).items()
        for name in sorted(names)
        if folder_of(module) in rank and folder_of(name) in rank and rank[folder_of(name)] > rank[folder_of(module)]
    ]
    assert upward == []


def test_modules_that_commands_share_import_no_command() -> None:
    """The modules directly in `commands` are below its folders."""
    shared = {name: names for name, names in imports_within("commands").items() if name.count(".") == 2}
    assert {name: names for name, names in shared.items() if any(other.count(".") > 2 for other in names)} == {}
