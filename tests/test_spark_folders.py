"""The folders of `spark` import each other in one order, which docs/architecture.md states."""

from __future__ import annotations

from pathlib import Path

from test_layers import SOURCE, imports_of

SPARK = SOURCE / "spark"

FOLDERS: list[set[str]] = [
    {"gateway", "java_check"},
    {"conditions", "extension"},
    {"engine"},
    {"layout", "write"},
    {"rows"},
    {"native"},
    {"session"},
]
"""Lowest first. Folders and modules of one rank do not import each other."""

RANK = {name: rank for rank, names in enumerate(FOLDERS) for name in names}


def folder_of(module: Path) -> str:
    """`rows` for rows/hidden_rows.py, `engine` for engine.py."""
    return module.relative_to(SPARK).with_suffix("").parts[0]


def test_folders_import_folders_below() -> None:
    """A module imports its own folder and folders of lower ranks."""
    modules = [module for module in sorted(SPARK.rglob("*.py")) if module != SPARK / "__init__.py"]
    upward = [
        f"{module.relative_to(SPARK)} imports {name}"
        for module in modules
        for name in sorted(imports_of(module))
        if name.startswith("anabranch.spark.")
        and (target := name.split(".")[2]) != folder_of(module)
        and RANK[target] >= RANK[folder_of(module)]
    ]
    assert upward == []
    assert {folder_of(module) for module in modules} == RANK.keys()
