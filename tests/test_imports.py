"""What a program pays for before its first call: modules are imported when they are needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    *("numpy", "pandas", "pyarrow", "pyroaring", "obstore", "msgspec", "pyiceberg"),
    *("rich", "typer", "grpc", "deltalake"),
}
OF_OTHERS = {
    *("obstore", "pandas", "pyiceberg", "rich", "typer", "grpc"),
    *(
        "anabranch.commands.write.write_command",
        "anabranch.commands.merge.merge_command",
        "anabranch.commands.dml.delete",
    ),
    *(
        "anabranch.sql.execute.execute_maintenance",
        "anabranch.uniform.conversion",
    ),
}
"""What queries of small tables have no use for."""


def imported(statement: str, *, before: str = "pass") -> set[str]:
    """The modules that a statement brings, in a process of its own."""
    program = f"import sys; {before}; known = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - known))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(process.stdout.split())


def test_the_package_brings_nothing() -> None:
    modules = imported("import anabranch")
    assert {name for name in modules if name.split(".")[0] in {*HEAVY, "pyspark", "py4j"}} == set()


def test_enable_brings_nothing_heavy() -> None:
    """What it imports beside PySpark itself, before it has a session."""
    modules = imported("from anabranch import enable, session", before="import pyspark.sql")
    assert {name for name in modules if name.split(".")[0] in HEAVY} == set()
    assert {name for name in modules if name.startswith(("anabranch.commands", "anabranch.snapshot"))} == set()


@pytest.mark.parametrize("part", ["table_handler", "read_handler"])
def test_a_first_query_brings_what_queries_need(part: str) -> None:
    modules = imported(f"import anabranch.callbacks.{part}", before="import pyspark.sql")
    assert modules & OF_OTHERS == set()
    assert "pyarrow" in modules
