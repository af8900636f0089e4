"""Our Java classes in the driver's JVM: compiled by the compiler that Spark ships, or taken from an earlier start.

They run on the driver only, but for `NumberedSupport`, which executors fetch where a table needs it. Else these get
nothing but Spark's own classes.
"""

from __future__ import annotations

import importlib.resources
import os
import threading
import time
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from py4j.protocol import Py4JJavaError

from anabranch.errors.environment import ExtensionClashError, ExtensionNotLoadedError
from anabranch.spark.extension.java_unit import (
    CLASSES_BY_RELEASE,
    DIGEST_CLASS,
    PACKAGE,
    JavaUnit,
    java_sources,
    java_unit,
)
from anabranch.spark.extension.kept_jars import (
    cache_folder,
    jar_bytes,
    jar_file_name,
    jar_place,
    keep_jar,
    kept_jar,
    temporary_jar,
)
from anabranch.spark.gateway.jvm_classes import JvmClasses, class_loader, has_class, loaded_by, object_array

Origin = Literal["compiled", "kept", "loaded"]
"""Whether the classes were compiled now, came from an earlier start's jar, or were in the JVM already."""

_KNOWN_BY = "Python"
"""The class of `PACKAGE` that is looked for to find out whether ours are in a JVM."""

_LOADERS_MAX = 32
_lock = threading.Lock()
_loaded: dict[int, tuple[Any, ExtensionClasses]] = {}
"""By the id of the gateway, which is kept as well, so that the id stays its own."""


class ExtensionClasses:
    """Our classes in one JVM. Names are without the package: `DeltaTable`, `DeltaTable$Kind`. Any thread may use it."""

    def __init__(self, gateway: Any, loader: Any, *, origin: Origin, package: str = PACKAGE) -> None:
        self.origin: Origin = origin
        self._package = package
        self._gateway = gateway
        self._loader = loader
        self._classes: dict[str, Any] = {}
        self._constructors: dict[str, Any] = {}

    def java_class(self, name: str) -> Any:
        """The `java.lang.Class`."""
        found = self._classes.get(name)
        if found is None:
            found = self._classes[name] = self._loader.loadClass(f"{self._package}.{name}")
        return found

    def new(self, name: str, *arguments: Any) -> Any:
        """A new object, by the one public constructor. A Python object that implements an interface is no argument."""
        constructor = self._constructors.get(name)
        if constructor is None:
            constructor = self._constructors[name] = self.java_class(name).getConstructors()[0]
        return constructor.newInstance(object_array(self._gateway, arguments))


def load_extension(gateway: Any) -> ExtensionClasses:
    """Our classes, put into the driver's JVM at first use.

    Raises `ExtensionClashError` where the JVM has other classes of these names, `ExtensionNotLoadedError` where this
    Spark lacks its compiler or what they are built on, or the JVM takes no classes from us.
    """
    with _lock:
        key = id(gateway)
        if key not in _loaded:
            sources = importlib.resources.files(__package__)
            classes = load_classes(gateway, driver_loader(gateway.jvm), sources, cache_folder(os.environ))
            _loaded[key] = (gateway, classes)
        return _loaded[key][1]


def is_loaded(gateway: Any) -> bool:
    """Whether this process has put our classes into the driver's JVM."""
    return id(gateway) in _loaded


def load_classes(
    gateway: Any,
    loader: Any,
    sources: Traversable,
    folder: Path | None,
    *,
    package: str = PACKAGE,
    known_by: str = _KNOWN_BY,
) -> ExtensionClasses:
    """What `load_extension` does, for the Java files in `sources`, with `loader`; keeps the jar in `folder`."""
    jvm = gateway.jvm
    unit = java_unit(java_sources(sources), classes_of_release(jvm), package=package)
    spark_version, build = _spark_build(jvm)
    digest = unit.digest(build)
    if _has_ours(loader, digest, f"{package}.{known_by}", f"{package}.{DIGEST_CLASS}"):
        return ExtensionClasses(gateway, loader, origin="loaded", package=package)
    jar, origin = _jar(jvm, loader, unit, folder, spark_version=spark_version, digest=digest)
    file = jvm.java.io.File(str(jar))
    if not file.canRead():
        problem = f"it cannot read {jar}, which this process wrote"
        raise ExtensionNotLoadedError(spark_version=spark_version, problem=problem)
    loader.addURL(file.toURI().toURL())
    return ExtensionClasses(gateway, loader, origin=origin, package=package)


def _jar(
    jvm: Any, loader: Any, unit: JavaUnit, folder: Path | None, *, spark_version: str, digest: str
) -> tuple[Path, Origin]:
    file_name = jar_file_name(spark_version=spark_version, digest=digest)
    place = None if folder is None else jar_place(folder, file_name)
    kept = None if place is None else kept_jar(place, digest=digest, now_s=time.time())
    if kept is not None:
        return kept, "kept"
    compiled = compile_unit(jvm, loader, unit, digest=digest)
    content = jar_bytes(compiled, digest=digest)
    written = None if place is None else keep_jar(place, content, now_s=time.time())
    return written or temporary_jar(file_name, content), "compiled"


def compile_unit(jvm: Any, loader: Any, unit: JavaUnit, *, digest: str, warnings: Any = None) -> dict[str, bytes]:
    """The byte code of each class of `unit` by its full name.

    `warnings` is a `WarningHandler` of the compiler's. Raises `ExtensionNotLoadedError`.
    """
    compiler = JvmClasses(jvm).compiler()
    if compiler is None:
        problem = "Spark came without Janino, the compiler of its own code"
        raise ExtensionNotLoadedError(spark_version=_spark_build(jvm)[0], problem=problem)
    compiler.setParentClassLoader(loader)
    compiler.setTargetVersion(8)
    compiler.setDebuggingInformation(True, True, True)
    if warnings is not None:
        compiler.setWarningHandler(warnings)
    try:
        compiler.cook(unit.with_digest(digest))
    except Py4JJavaError as error:
        problem = f"they do not compile: {unit.explained(str(error.java_exception.getMessage()))}"
        raise ExtensionNotLoadedError(spark_version=_spark_build(jvm)[0], problem=problem) from None
    return {str(entry.getKey()): bytes(entry.getValue()) for entry in compiler.getBytecodes().entrySet()}


def driver_loader(jvm: Any) -> Any:
    """The outermost loader that takes jars, which all threads see.

    A thread that has run ADD JAR has a loader of its own below it. Raises `ExtensionNotLoadedError` where there is
    none: the JVM was not started as Spark does it.
    """
    found, loader = None, class_loader(jvm)
    takes_jars = loaded_by(loader, "org.apache.spark.util.MutableURLClassLoader")
    for _ in range(_LOADERS_MAX):
        if loader is None or takes_jars is None:
            break
        if takes_jars.isInstance(loader):
            found = loader
        loader = loader.getParent()
    if found is None:
        problem = "its JVM has no class loader that takes jars"
        raise ExtensionNotLoadedError(spark_version=_spark_build(jvm)[0], problem=problem)
    return found


def classes_of_release(jvm: Any) -> dict[str, str]:
    """The classes of this Spark that words of our sources stand for."""
    loader = class_loader(jvm)
    return {word: _first_there(loader, names) for word, names in CLASSES_BY_RELEASE.items()}


def _first_there(loader: Any, names: Sequence[str]) -> str:
    return next((name for name in names if has_class(loader, name)), names[0])


def _spark_build(jvm: Any) -> tuple[str, str]:
    """The version of Spark, and what tells this build from others of that version."""
    spark = jvm.org.apache.spark.package
    version = str(spark.SPARK_VERSION())
    return version, "\n".join((version, str(spark.SPARK_REVISION()), str(spark.SPARK_BUILD_DATE())))


def _has_ours(loader: Any, digest: str, known_by: str, told_by: str) -> bool:
    """Whether the JVM has our classes. Raises `ExtensionClashError` where it has others of the same name."""
    found = loaded_by(loader, known_by)
    if found is None:
        return False
    teller = loaded_by(loader, told_by)
    if teller is None or teller.getField("VALUE").get(None) != digest:
        raise ExtensionClashError(name=known_by, location=_location(found))
    return True


def _location(loaded: Any) -> str:
    source = loaded.getProtectionDomain().getCodeSource()
    return "an unknown place" if source is None else str(source.getLocation())
