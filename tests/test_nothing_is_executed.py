"""Nothing that stands in a table is ever run: the package has no way to run it."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "anabranch"
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "yaml", "runpy", "pty"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_KEYWORDS = {"allow_pickle", "shell"}


def test_no_unpickling_and_no_evaluation() -> None:
    """Covers attack "pickle"; what Spark itself ships to its workers is ours, and never comes from a table."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        found += [(str(path.relative_to(SOURCE)), node.lineno) for node in nodes if _runs_what_it_is_given(node)]
    assert found == []


def _runs_what_it_is_given(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return bool({alias.name.partition(".")[0] for alias in node.names} & FORBIDDEN_MODULES)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in FORBIDDEN_MODULES
    if isinstance(node, ast.Call):
        keywords = {keyword.arg for keyword in node.keywords}
        return getattr(node.func, "id", None) in FORBIDDEN_CALLS or bool(keywords & UNSAFE_KEYWORDS)
    return False
