"""What `make java-check` finds in Java sources."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark
import pytest

from anabranch.spark.extension.java_unit import java_unit
from anabranch.spark.gateway.jvm_classes import class_loader

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_java.py"
FALLS_THROUGH = (
    "try { return o.toString(); } catch (RuntimeException e) { o = e; } catch (Error e) { o = e; } return o;"
)


@pytest.fixture(scope="module")
def check_java() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_java", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def gateway(check_java: ModuleType) -> Iterator[Any]:
    with check_java.java_machine(Path(pyspark.__file__).parent / "jars") as made:
        yield made


@pytest.fixture(scope="module")
def warnings(check_java: ModuleType, gateway: Any) -> Any:
    return check_java.warning_handler(gateway.jvm)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("Object f() { return null; }", None),
        (
            "Object f() { return gone; }",
            "Janino: they do not compile: File 'A.java', Line 3, Column 30: Expression \"gone\" is not an rvalue",
        ),
        (
            f"Object f(Object o) {{ {FALLS_THROUGH} }}",
            "anabranch.A: java.lang.VerifyError: Inconsistent stackmap frames",
        ),
        ("Object F() { return null; }", "Janino warns: File 'A.java', Line 3, Column 17: Method name"),
    ],
)
def test_problems_of_a_member(
    check_java: ModuleType, gateway: Any, warnings: Any, member: str, message: str | None
) -> None:
    """What does not compile, what the compiler warns of, and byte code that a JVM refuses."""
    source = f"package anabranch;\npublic class A {{\n  public {member}\n}}\n"
    unit = java_unit({"A.java": source}, {})
    with check_java.checked(gateway, unit, warnings, class_loader(gateway.jvm)) as (problems, _):
        if message is None:
            assert problems == []
        else:
            (problem,) = problems
            assert problem.startswith(message)
