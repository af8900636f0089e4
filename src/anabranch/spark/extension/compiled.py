"""Our Java classes in the driver's JVM: compiled by the compiler that Spark ships, or loaded from an earlier jar.

They run on the driver only, except `NestedIdsWriteSupport`, which executors fetch if a table needs it. Plans for
executors have no other classes than Spark's own.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
import os
import re
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
    jar_path,
    keep_jar,
    kept_jar,
    temporary_jar,
)
from anabranch.spark.gateway.jvm_classes import JvmClasses, class_loader, has_class, loaded_by

Origin = Literal["compiled", "kept", "loaded"]
"""Whether the classes were compiled now, came from an earlier start's jar, or were in the JVM already."""

_FOLDER = "java"
"""The folder of our sources, beside this module."""
_MAIN_CLASS = "delta.DefaultSource"
"""The class by which ours are recognized in a JVM. A JVM with another one of this name has another format `delta`."""

_LOADERS_MAX = 32
_lock = threading.Lock()
_loaded: dict[int, tuple[Any, ExtensionClasses]] = {}
"""By the id of the gateway. The gateway is kept, too, so that no other object gets its id."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionClasses:
    """Our classes in one JVM."""

    loader: Any
    """The class loader that has them."""
    origin: Origin


def load_extension(gateway: Any) -> ExtensionClasses:
    """Our classes, loaded into the driver's JVM at first use.

    Raises `ExtensionClashError` if the JVM has other classes of these names, `ExtensionNotLoadedError` if this Spark
    lacks its compiler or classes that ours need, or the JVM does not load classes from us.
    """
    with _lock:
        key = id(gateway)
        if key not in _loaded:
            sources = importlib.resources.files(__package__).joinpath(_FOLDER)
            classes = load_classes(gateway, driver_loader(gateway.jvm), sources, cache_folder(os.environ))
            _loaded[key] = (gateway, classes)
        return _loaded[key][1]


def is_loaded(gateway: Any) -> bool:
    """Whether this process has loaded our classes into the driver's JVM."""
    return id(gateway) in _loaded


def load_classes(
    gateway: Any,
    loader: Any,
    sources: Traversable,
    folder: Path | None,
    *,
    package: str = PACKAGE,
    main_class: str = _MAIN_CLASS,
) -> ExtensionClasses:
    """Compiles and loads the Java files in `sources` by `loader`, as `load_extension` does; keeps a jar in `folder`.

    `main_class` is one of these classes, with its package. It is there where all of them are.
    """
    jvm = gateway.jvm
    unit = java_unit(java_sources(sources), classes_of_release(jvm), package=package)
    spark_version, build = _spark_build(jvm)
    digest = unit.digest(build)
    if _has_ours(loader, digest, main_class, f"{package}.{DIGEST_CLASS}"):
        return ExtensionClasses(loader=loader, origin="loaded")
    jar, origin = _jar(gateway, loader, unit, folder, spark_version=spark_version, digest=digest)
    file = jvm.java.io.File(str(jar))
    if not file.canRead():
        problem = f"it cannot read {jar}, which this process wrote"
        raise ExtensionNotLoadedError(spark_version=spark_version, problem=problem)
    loader.addURL(file.toURI().toURL())
    return ExtensionClasses(loader=loader, origin=origin)


def _jar(
    gateway: Any, loader: Any, unit: JavaUnit, folder: Path | None, *, spark_version: str, digest: str
) -> tuple[Path, Origin]:
    file_name = jar_file_name(spark_version=spark_version, digest=digest)
    path = None if folder is None else jar_path(folder, file_name)
    kept = None if path is None else kept_jar(path, digest=digest, now_s=time.time())
    if kept is not None:
        return kept, "kept"
    compiled = compile_unit(gateway, loader, unit, digest=digest)
    content = jar_bytes(compiled, digest=digest)
    written = None if path is None else keep_jar(path, content, now_s=time.time())
    return written or temporary_jar(file_name, content), "compiled"


def compile_unit(gateway: Any, loader: Any, unit: JavaUnit, *, digest: str, warnings: Any = None) -> dict[str, bytes]:
    """The byte code of each class of `unit` by its full name.

    `warnings` is a `WarningHandler` of the compiler's. Raises `ExtensionNotLoadedError`.
    """
    jvm = gateway.jvm
    compiler = JvmClasses(jvm).compiler()
    if compiler is None:
        problem = "Spark came without Janino, the compiler of its own code"
        raise ExtensionNotLoadedError(spark_version=_spark_build(jvm)[0], problem=problem)
    resources = jvm.org.codehaus.commons.compiler.util.resource
    files, compiled = resources.MapResourceFinder(), resources.MapResourceCreator()
    sources = unit.with_digest(digest)
    array = gateway.new_array(resources.Resource, len(sources))
    for i, (path, text) in enumerate(sources.items()):
        files.addResource(path, text.encode())
        array[i] = files.findResource(path)
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    # With these it looks for no other sources and classes, such as files of the working directory.
    compiler.setSourceFinder(resources.MapResourceFinder())
    compiler.setClassFileFinder(resources.MapResourceFinder())
    compiler.setClassFileCreator(compiled)
    compiler.setCharacterEncoding("UTF-8")
    compiler.setTargetVersion(8)
    compiler.setDebugLines(True)
    compiler.setDebugVars(True)
    compiler.setDebugSource(True)
    if warnings is not None:
        compiler.setWarningHandler(warnings)
    try:
        compiler.compile(array)
    except Py4JJavaError as error:
        # The compiler repeats the location.
        message = re.sub(r"(File '[^']+', Line \d+, Column \d+: )\1+", r"\1", str(error.java_exception.getMessage()))
        problem = f"they do not compile: {message}"
        raise ExtensionNotLoadedError(spark_version=_spark_build(jvm)[0], problem=problem) from None
    return {
        str(entry.getKey()).removesuffix(".class").replace("/", "."): bytes(entry.getValue())
        for entry in compiled.getMap().entrySet()
    }


def driver_loader(jvm: Any) -> Any:
    """The outermost class loader that takes jars: all threads have it.

    A thread that has run ADD JAR has a loader of its own below it. Raises `ExtensionNotLoadedError` if there is none:
    the JVM was not started by Spark.
    """
    outermost, loader = None, class_loader(jvm)
    takes_jars = loaded_by(loader, "org.apache.spark.util.MutableURLClassLoader")
    for _ in range(_LOADERS_MAX):
        if loader is None or takes_jars is None:
            break
        if takes_jars.isInstance(loader):
            outermost = loader
        loader = loader.getParent()
    if outermost is None:
        problem = "its JVM has no class loader that accepts jars"
        raise ExtensionNotLoadedError(spark_version=_spark_build(jvm)[0], problem=problem)
    return outermost


def classes_of_release(jvm: Any) -> dict[str, str]:
    """The class of this Spark for each placeholder in our sources."""
    loader = class_loader(jvm)
    return {word: _first_existing(loader, names) for word, names in CLASSES_BY_RELEASE.items()}


def _first_existing(loader: Any, names: Sequence[str]) -> str:
    return next((name for name in names if has_class(loader, name)), names[0])


def _spark_build(jvm: Any) -> tuple[str, str]:
    """The version of Spark, and a text that is different for each build of that version."""
    spark = jvm.org.apache.spark.package
    version = str(spark.SPARK_VERSION())
    return version, "\n".join((version, str(spark.SPARK_REVISION()), str(spark.SPARK_BUILD_DATE())))


def _has_ours(loader: Any, digest: str, main_class: str, digest_class: str) -> bool:
    """Whether the JVM has our classes. Raises `ExtensionClashError` if it has others of the same names."""
    loaded = loaded_by(loader, main_class)
    if loaded is None:
        return False
    loaded_digest = loaded_by(loader, digest_class)
    if loaded_digest is None or loaded_digest.getField("VALUE").get(None) != digest:
        raise ExtensionClashError(name=main_class, location=_location(loaded))
    return True


def _location(loaded: Any) -> str:
    source = loaded.getProtectionDomain().getCodeSource()
    return "an unknown place" if source is None else str(source.getLocation())
