"""Errors that docstrings name exist."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import py4j.protocol
import pyarrow
import pyspark.errors

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "anabranch"
TREES = {path.relative_to(PROJECT): ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}

CLASSES = {
    *(node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)),
    *dir(builtins),
    *dir(pyspark.errors),
    *dir(py4j.protocol),
    *dir(pyarrow),
}
CALLABLES = {
    node.arg if isinstance(node, ast.arg) else node.name
    for tree in TREES.values()
    for node in ast.walk(tree)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.arg)
}
"""Functions and classes, and parameters, which may be functions."""


def docstrings() -> Iterator[tuple[str, str]]:
    """Where each docstring is, and its text."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}:{getattr(node, 'lineno', 1)}", " ".join((ast.get_docstring(node) or "").split())


def raised_as() -> Iterator[tuple[str, str]]:
    """Functions to whose errors a docstring refers: "Raises as `f`", "what `f` raises"."""
    for where, text in docstrings():
        for sentence in re.findall(r"\bRaises\b.*?(?:\.(?=\s|$)|$)", text):
            names = re.findall(r"\b[Rr]aises as `(\w+)`|\bwhat `(\w+)` (?:does|raises)\b", sentence)
            yield from ((where, name) for groups in names for name in groups if name)


def is_module(name: str) -> bool:
    try:
        importlib.import_module(f"anabranch.{name.removeprefix('anabranch.')}")
    except ModuleNotFoundError:
        return False
    return True


def test_errors_that_docstrings_name_exist() -> None:
    names = [
        (where, name) for where, text in docstrings() for name in re.findall(r"\b[A-Z]\w*(?:Error|Exception)\b", text)
    ]
    assert len(names) > 500
    assert [(where, name) for where, name in names if name not in CLASSES] == []


def test_modules_of_errors_that_docstrings_name_exist() -> None:
    pattern = r"`((?:anabranch\.)?errors\.[a-z]\w*|anabranch\.exceptions)`"
    names = [(where, name) for where, text in docstrings() for name in re.findall(pattern, text)]
    assert len(names) > 20
    assert [(where, name) for where, name in names if not is_module(name)] == []


def test_functions_to_whose_errors_docstrings_refer_exist() -> None:
    names = list(raised_as())
    assert len(names) > 20
    assert [(where, name) for where, name in names if name not in CALLABLES] == []
