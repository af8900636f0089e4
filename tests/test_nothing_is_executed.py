"""Nothing in a table is ever run: the package has no way to run it. Covers attack A8."""

from __future__ import annotations

import ast
from pathlib import Path

from test_layers import tree_of

SOURCE = Path(__file__).parents[1] / "src" / "anabranch"
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "yaml", "runpy", "pty"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_KEYWORDS = {"allow_pickle", "shell"}
PROGRAMS_OF_USERS = {"cli/programs/program_run.py", "cli/programs/shell.py"}
"""What runs the program that a user names, as `python` would. Nothing in it opens a table."""
BELOW_A_TABLE = (
    "anabranch.log",
    "anabranch.snapshot",
    "anabranch.storage",
    "anabranch.transaction",
    "anabranch.commands",
)


def test_no_unpickling_and_no_evaluation() -> None:
    """Covers attack "pickle"; what Spark itself ships to its workers is ours, and never comes from a table."""
    calls = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        nodes = ast.walk(tree_of(path))
        if name not in PROGRAMS_OF_USERS:
            calls += [(name, getattr(node, "lineno", 0)) for node in nodes if _executes_an_argument(node)]
    assert calls == []


def test_what_runs_programs_opens_no_table() -> None:
    """So nothing that comes from a table can be in what it runs."""
    for name in sorted(PROGRAMS_OF_USERS):
        tree = tree_of(SOURCE / name)
        imported = [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not [module for module in imported if module.startswith(BELOW_A_TABLE)], name


def _executes_an_argument(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return bool({alias.name.partition(".")[0] for alias in node.names} & FORBIDDEN_MODULES)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in FORBIDDEN_MODULES
    if isinstance(node, ast.Call):
        keywords = {keyword.arg for keyword in node.keywords}
        return getattr(node.func, "id", None) in FORBIDDEN_CALLS or bool(keywords & UNSAFE_KEYWORDS)
    return False
