"""The names by which Java calls Python, and Python Java: only the uses in Java are checked by a compiler."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.callbacks import handler_registry
from anabranch.callbacks.handler_registry import COMMANDS_BY_NODE, HANDLERS
from anabranch.callbacks.resolved_commands import Command

PACKAGE = Path(str(importlib.resources.files("anabranch")))
JAVA = {path.stem: path.read_text("utf-8") for path in (PACKAGE / "spark/extension/java").rglob("*.java")}
METHOD = re.compile(
    r"public static \w+ (?P<name>\w+)\((?P<parameters>[^)]*)\) \{\s+"
    r'(?:return (?:\(\w+\) )?)?PythonEndpoint\.call(?:FromProxy)?\(\s*"(?P<handler>\w+)\.(?P<function>\w+)", (?P<arguments>[^)]*)\);'
)
JAVA_NAME = re.compile(
    r"\b(?:_?jvm|_?driver|_?values|self)\.(?P<package>anabranch|delta)\.(?P<class>[A-Z]\w*)(?:\.(?P<method>\w+)\()?"
)
NO_CALLBACK = {"keep"}
"""Public methods of `HandlerRegistry` itself, for `enable`."""


@dataclass(frozen=True)
class Method:
    """A method of `PythonCallbacks`."""

    name: str
    parameters: list[str]
    arguments: list[str]
    handler: str
    function: str


def in_python(name: str) -> str:
    """A Java name as Python spells it."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


METHODS = [
    Method(
        name=match["name"],
        parameters=[parameter.split()[-1] for parameter in match["parameters"].split(",")],
        arguments=match["arguments"].split(", "),
        handler=match["handler"],
        function=match["function"],
    )
    for match in METHOD.finditer(JAVA["PythonCallbacks"])
]
CLASSES: dict[str, Any] = {
    "HandlerRegistry": handler_registry.HandlerRegistry,
    **{
        name: getattr(importlib.import_module(f"anabranch.callbacks.{module}"), name)
        for name, module in HANDLERS.items()
    },
}


def public(handler: str) -> dict[str, Any]:
    """The public attributes of a handler's class."""
    return {name: value for name, value in inspect.getmembers(CLASSES[handler]) if not name.startswith("_")}


def parameters_of(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


def test_every_method_in_java_was_read() -> None:
    assert len(METHODS) == JAVA["PythonCallbacks"].count("public static ")
    assert len(METHODS) == len({method.name for method in METHODS})


def test_every_method_in_java_passes_on_its_parameters_under_its_own_name() -> None:
    for method in METHODS:
        assert method.arguments == method.parameters, method.name
        assert method.function == in_python(method.name)


def test_every_callback_has_a_function_with_the_same_parameters() -> None:
    for method in METHODS:
        function = public(method.handler).get(method.function)
        assert function is not None, f"{method.handler} lacks {method.function}"
        assert parameters_of(function) == [in_python(parameter) for parameter in method.parameters], method


def test_every_public_method_of_a_handler_is_a_callback() -> None:
    callbacks = {(method.handler, method.function) for method in METHODS}
    functions = {
        (handler, name)
        for handler in CLASSES
        for name, value in public(handler).items()
        if callable(value) and name not in NO_CALLBACK
    }
    assert functions == callbacks


def test_every_command_is_listed() -> None:
    commands = {
        f"{handler}.{name}"
        for handler in CLASSES
        for name, value in public(handler).items()
        if isinstance(value, Command)
    }
    assert set(COMMANDS_BY_NODE.values()) == commands


def test_every_class_and_method_that_python_names_is_in_the_java() -> None:
    """A wrong name fails only when Python calls it: Py4J looks it up then."""
    uses = {
        (match["package"], match["class"], match["method"])
        for path in PACKAGE.rglob("*.py")
        for match in JAVA_NAME.finditer(path.read_text("utf-8"))
    }
    unknown = {
        (package, name, method)
        for package, name, method in uses
        if not JAVA.get(name, "").startswith(f"package {package};")
        or (method and not re.search(rf"public .*\b{method}\(", JAVA[name]))
    }
    assert len(uses) > len(JAVA) / 2
    assert not unknown
