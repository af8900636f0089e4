"""`anabranch.tables` has every public name and signature of the published delta-spark wheel."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TypeGuard

import pytest

from anabranch import tables

WHEEL = "delta-spark==4.4.1"

Signature = list[tuple[str, bool]]
"""Parameter names, each with whether it has a default."""


@pytest.fixture(scope="session")
def published(request: pytest.FixtureRequest) -> dict[str, dict[str, Signature]]:
    """Public methods of every public class of `delta.tables`, by class and method."""
    folder = request.config.cache.mkdir("delta-spark-wheel")
    wheel = next(iter(folder.glob("*.whl")), None) or _download(folder)
    source = zipfile.ZipFile(wheel).read("delta/tables.py").decode()
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {
        node.name: {item.name: _published_signature(item) for item in node.body if _is_public_method(item)}
        for node in classes
    }


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--dest", str(folder), WHEEL]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        pytest.skip(f"not run: {WHEEL} could not be fetched: {outcome.stderr.strip().splitlines()[-1:]}")
    return next(iter(folder.glob("*.whl")))


def _is_public_method(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
        return False
    return not any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)


def _published_signature(node: ast.stmt) -> Signature:
    assert isinstance(node, ast.FunctionDef)
    positional = node.args.args
    defaults = len(node.args.defaults)
    named = [(arg.arg, index >= len(positional) - defaults) for index, arg in enumerate(positional)]
    keywords = [
        (arg.arg, default is not None) for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    ]
    star = [(f"*{node.args.vararg.arg}", False)] if node.args.vararg else []
    return [*named[1:], *star, *keywords]


def _our_signature(method: object, published: Signature) -> Signature:
    """The signature without what is ours alone: parameters that can only be named and need not be."""
    published_defaults = dict(published)
    parameters = []
    for parameter in inspect.signature(method).parameters.values():  # type: ignore[arg-type]
        has_default = parameter.default is not inspect.Parameter.empty
        if (
            parameter.kind is inspect.Parameter.KEYWORD_ONLY
            and has_default
            and parameter.name not in published_defaults
        ):
            continue
        star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
        parameters.append((f"{star}{parameter.name}", has_default))
    return parameters


def test_every_public_class_is_there(published: dict[str, dict[str, Signature]]) -> None:
    """Replacing the import is the whole migration."""
    missing = [name for name in published if not hasattr(tables, name)]
    assert missing == []


def test_every_method_has_the_published_signature(published: dict[str, dict[str, Signature]]) -> None:
    """Same parameters, in the same order, with defaults where Delta has defaults."""
    assert "forPath" in published["DeltaTable"], "the wheel was read wrongly"
    differences = []
    for class_name, methods in published.items():
        ours = getattr(tables, class_name)
        for name, signature in methods.items():
            method = getattr(ours, name, None)
            if method is None:
                differences.append(f"{class_name}.{name} is missing")
                continue
            parameters = _our_signature(method, signature)
            bound = isinstance(inspect.getattr_static(ours, name), classmethod)
            parameters = parameters if bound else parameters[1:]
            if parameters != signature:
                differences.append(f"{class_name}.{name}{parameters} should be {signature}")
    assert differences == []
