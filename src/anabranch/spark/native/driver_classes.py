"""The few Java classes of ours, compiled in the driver's JVM by the compiler that Spark ships.

They run on the driver only. Executors get nothing but Spark's own classes.
"""

from __future__ import annotations

import importlib.resources
import threading
from typing import Any

from anabranch.spark.native.jvm_classes import JvmClasses, class_loader

_SOURCES = ("ListedFiles", "MappedParquet", "QueryBody")
_lock = threading.Lock()
_compiled: dict[int, tuple[Any, DriverClasses | None]] = {}
"""By the id of the gateway, which is kept as well, so that the id stays its own."""


class DriverClasses:
    """Our classes in one JVM."""

    def __init__(self, gateway: Any, loaders: dict[str, Any]) -> None:
        self._gateway = gateway
        self._loaders = loaders
        self._constructors: dict[str, Any] = {}

    def new(self, name: str, *arguments: Any) -> Any:
        """A new object of class `name`, such as `ListedFiles` or `ListedFiles$Files`."""
        constructor = self._constructors.get(name)
        if constructor is None:
            loaded = self._loaders[name.split("$", maxsplit=1)[0]].loadClass(f"anabranch.{name}")
            constructor = self._constructors[name] = loaded.getConstructors()[0]
        return constructor.newInstance(object_array(self._gateway, arguments))


def driver_classes(gateway: Any, classes: JvmClasses) -> DriverClasses | None:
    """Our classes, compiled at first use in this JVM; None where Spark came without its compiler."""
    with _lock:
        key = id(gateway)
        if key not in _compiled:
            _compiled[key] = (gateway, _compile(gateway, classes))
        return _compiled[key][1]


def object_array(gateway: Any, values: tuple[Any, ...]) -> Any:
    """`values` as a Java `Object[]`. A Python object that implements an interface cannot be among them."""
    array = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def _compile(gateway: Any, classes: JvmClasses) -> DriverClasses | None:
    loaders = {}
    for name in _SOURCES:
        compiler = classes.compiler()
        if compiler is None:
            return None
        source = importlib.resources.files("anabranch.spark.native").joinpath(f"{name}.java").read_text("utf-8")
        compiler.setParentClassLoader(class_loader(gateway.jvm))
        compiler.cook(source)
        loaders[name] = compiler.getClassLoader()
    return DriverClasses(gateway, loaders)
