"""The callbacks that Java calls, `PythonCallbacks.java`, are the public methods of the handlers in Python."""

from __future__ import annotations

import importlib
import importlib.resources
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anabranch.callbacks import handler_registry
from anabranch.callbacks.handler_registry import COMMANDS, HANDLERS
from anabranch.callbacks.resolved_commands import Command

SOURCE = importlib.resources.files("anabranch.spark.extension").joinpath("PythonCallbacks.java").read_text("utf-8")
METHOD = re.compile(
    r"public static \w+ (?P<name>\w+)\((?P<parameters>[^)]*)\) \{\s+"
    r'(?:return (?:\(\w+\) )?)?Python\.call(?:FromProxy)?\(\s*"(?P<handler>\w+)\.(?P<function>\w+)", (?P<arguments>[^)]*)\);'
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
    for match in METHOD.finditer(SOURCE)
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
    assert len(METHODS) == SOURCE.count("public static ")
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
    assert set(COMMANDS.values()) == commands
