"""Our Java classes get into a JVM: compiled, from an earlier start's jar, or because they are there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JVMView
from py4j.protocol import DEFAULT_JVM_ID
from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway

from anabranch.errors.environment import ExtensionClashError, ExtensionNotLoadedError
from anabranch.spark.extension import compiled, delta_spark_names
from anabranch.spark.extension.compiled import (
    ExtensionClasses,
    classes_of_release,
    compile_unit,
    driver_loader,
    load_classes,
    load_extension,
)
from anabranch.spark.extension.java_unit import java_sources, java_unit
from anabranch.spark.extension.kept_jars import jar_bytes
from anabranch.spark.gateway import jvm_classes

pytestmark = pytest.mark.spark


def static(classes: ExtensionClasses, name: str, method: str, *arguments: Any) -> Any:
    """Calls a static method of one of these classes."""
    for candidate in classes.loader.loadClass(name).getMethods():
        if candidate.getName() == method and candidate.getParameterCount() == len(arguments):
            jvm = JVMView(classes.loader._gateway_client, jvm_name="default", id=DEFAULT_JVM_ID)
            array = jvm.java.lang.reflect.Array.newInstance(
                classes.loader.loadClass("java.lang.Object"), len(arguments)
            )
            for i, argument in enumerate(arguments):
                array[i] = argument
            return candidate.invoke(None, array)
    raise AttributeError(method)


SOURCE = """
package delta;

import java.util.function.Function;

public final class DefaultSource {
  public static volatile Function function;

  public static String greet(String name) {
    return "hello " + name;
  }

  public static String greet() {
    return greet("world");
  }

  public static Object call(Object argument) {
    return function.apply(argument);
  }

  public static Class offset() {
    return V1_OFFSET.class;
  }
}
"""

PAIR = """
package anabranch;

import delta.DefaultSource;
import java.util.function.Function;

public class Pair {
  public final Object left;
  public final long right;

  public Pair(Object left, long right) {
    this.left = left;
    this.right = right;
  }

  public static final class Inner implements Function {
    public Object apply(Object value) {
      return DefaultSource.greet((String) value);
    }
  }
}
"""

STARTS = """
import sys
from pyspark.java_gateway import launch_gateway
from anabranch.spark.extension.compiled import load_extension

gateway = launch_gateway()
classes = load_extension(gateway)
assert load_extension(gateway) is classes
print(classes.origin, classes.loader.loadClass("delta.DefaultSource").getName())
"""

STARTS_TWO_SESSIONS = """
from pyspark.sql import SparkSession
from anabranch.spark.extension import compiled, delta_spark_names

for _ in range(2):
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    classes = compiled.load_extension(spark.sparkContext._gateway)
    print(classes.origin, spark._jvm.delta.DefaultSource._fqn)
    spark.stop()
compiled._loaded.clear()
print(compiled.load_extension(spark.sparkContext._gateway).origin)
"""


class Upper:
    """A function of the JVM's that Python answers."""

    def apply(self, value: str) -> str:
        return value.upper()

    class Java:
        implements = ("java.util.function.Function",)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Any]:
    """A JVM of these tests, as PySpark starts it, without a session; the one whose errors PySpark looks at meanwhile."""
    made: Any = launch_gateway()
    ensure_callback_server_started(made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkContext, "_gateway", made)
        patch.setattr(SparkContext, "_jvm", made.jvm)
        yield made
    made.shutdown()
    made.proc.stdin.close()


@pytest.fixture
def loader(gateway: Any) -> Any:
    """A loader that nothing was put into."""
    jvm = gateway.jvm
    urls = gateway.new_array(jvm.java.net.URL, 0)
    return jvm.org.apache.spark.util.MutableURLClassLoader(urls, driver_loader(jvm))


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "DefaultSource.java").write_text(SOURCE)
    (folder / "Pair.java").write_text(PAIR)
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def start(gateway: Any, sources: Path, cache: Path) -> Callable[..., ExtensionClasses]:
    """What a start does, in a loader of its own each time: `start()`, or `start(None)` for one that keeps nothing."""

    def run(folder: Path | None = cache) -> ExtensionClasses:
        jvm = gateway.jvm
        urls = gateway.new_array(jvm.java.net.URL, 0)
        fresh = jvm.org.apache.spark.util.MutableURLClassLoader(urls, driver_loader(jvm))
        classes = load_classes(gateway, fresh, sources, folder)
        assert static(classes, "delta.DefaultSource", "greet", "you") is not None
        return classes

    return run


def jar_of(classes: ExtensionClasses) -> Path:
    return Path(
        classes.loader.loadClass("delta.DefaultSource").getProtectionDomain().getCodeSource().getLocation().getPath()
    )


def test_what_classes_offer(start: Callable[..., ExtensionClasses], gateway: Any) -> None:
    classes = start()
    assert classes.loader.loadClass("anabranch.Pair$Inner").getName() == "anabranch.Pair$Inner"
    assert (
        static(classes, "delta.DefaultSource", "greet", "you"),
        static(classes, "delta.DefaultSource", "greet"),
    ) == (
        "hello you",
        "hello world",
    )
    assert static(classes, "delta.DefaultSource", "offset").getName() == classes_of_release(gateway.jvm)["V1_OFFSET"]
    classes.loader.loadClass("delta.DefaultSource").getField("function").set(None, Upper())
    assert static(classes, "delta.DefaultSource", "call", "text") == "TEXT"


def test_a_cold_start_compiles_and_a_warm_one_does_not(start: Callable[..., ExtensionClasses], cache: Path) -> None:
    cold = start()
    (jar,) = cache.iterdir()
    written = jar.stat().st_mtime_ns
    warm = start()
    assert (cold.origin, warm.origin) == ("compiled", "kept")
    assert jar_of(cold) == jar_of(warm) == jar
    assert (list(cache.iterdir()), jar.stat().st_mtime_ns) == ([jar], written)


def test_a_warm_start_takes_the_classes_from_the_jar(
    start: Callable[..., ExtensionClasses], gateway: Any, loader: Any, cache: Path
) -> None:
    """The jar that is found here was planted: its classes say something else than the sources."""
    start()
    (jar,) = cache.iterdir()
    digest = jar.stem.rpartition("-")[2]
    planted = java_unit({"DefaultSource.java": SOURCE.replace("hello", "planted")}, classes_of_release(gateway.jvm))
    code = compile_unit(gateway, loader, planted, digest=digest)
    jar.write_bytes(jar_bytes(code, digest=digest))

    classes = start()
    assert (classes.origin, static(classes, "delta.DefaultSource", "greet", "you")) == ("kept", "planted you")


def test_other_sources_are_another_jar(start: Callable[..., ExtensionClasses], sources: Path, cache: Path) -> None:
    start()
    (sources / "DefaultSource.java").write_text(SOURCE.replace("hello", "good morning"))
    classes = start()
    assert (classes.origin, static(classes, "delta.DefaultSource", "greet", "you")) == ("compiled", "good morning you")
    assert len(list(cache.iterdir())) == 2


def test_a_damaged_jar_is_compiled_again(start: Callable[..., ExtensionClasses], cache: Path) -> None:
    start()
    (jar,) = cache.iterdir()
    whole = jar.read_bytes()
    jar.write_bytes(whole[:700] + bytes(100) + whole[800:])
    assert start().origin == "compiled"
    assert jar.read_bytes() == whole
    assert start().origin == "kept"


def test_a_folder_that_others_may_write_to_is_not_used(
    start: Callable[..., ExtensionClasses], cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The classes come from a folder that only this process knows, and a warning says why."""
    start()
    cache.chmod(0o777)
    for _ in range(2):
        classes = start()
        assert (classes.origin, jar_of(classes).parent == cache) == ("compiled", False)
        assert jar_of(classes).parent.stat().st_mode & 0o777 == 0o700
    assert [record.levelname for record in caplog.records if str(cache) in record.getMessage()] == ["WARNING"]


def test_without_a_folder_every_start_compiles(start: Callable[..., ExtensionClasses], cache: Path) -> None:
    assert [start(None).origin, start(None).origin] == ["compiled", "compiled"]
    assert not cache.exists()


def test_classes_that_are_there_are_taken(gateway: Any, loader: Any, sources: Path, cache: Path) -> None:
    first = load_classes(gateway, loader, sources, cache)
    second = load_classes(gateway, loader, sources, cache)
    assert second.origin == "loaded"
    assert second.loader is first.loader


def test_classes_of_another_version_are_refused(gateway: Any, loader: Any, sources: Path, cache: Path) -> None:
    load_classes(gateway, loader, sources, cache)
    (jar,) = cache.iterdir()
    (sources / "DefaultSource.java").write_text(SOURCE.replace("hello", "good morning"))
    with pytest.raises(ExtensionClashError, match="does not belong to this version of anabranch") as caught:
        load_classes(gateway, loader, sources, cache)
    assert (caught.value.name, caught.value.location) == ("delta.DefaultSource", jar.as_uri().replace("///", "/"))


def test_classes_of_another_library_are_refused(gateway: Any, loader: Any, sources: Path, tmp_path: Path) -> None:
    unit = java_unit(java_sources(sources), classes_of_release(gateway.jvm))
    code = compile_unit(gateway, loader, unit, digest="")
    jar = tmp_path / "theirs.jar"
    jar.write_bytes(jar_bytes({name: code[name] for name in code if "SourcesDigest" not in name}, digest=""))
    loader.addURL(gateway.jvm.java.io.File(str(jar)).toURI().toURL())
    with pytest.raises(ExtensionClashError, match=r"theirs\.jar"):
        load_classes(gateway, loader, sources, None)


def test_classes_under_delta_sparks_names_that_are_there_stay(gateway: Any, loader: Any, tmp_path: Path) -> None:
    """Covers bug B109. As where a part of the jar is on the classpath."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "DeltaTable.java").write_text("package io.delta.tables;\n\npublic class DeltaTable {}\n")
    (package, (_, class_name)), *_ = delta_spark_names.UNITS.items()
    main_class = f"{package}.{class_name}"
    before = load_classes(gateway, loader, theirs, None, package=package, main_class=main_class).loader.loadClass(
        main_class
    )
    load_classes(gateway, loader, resources.files(compiled.__package__).joinpath("java"), tmp_path / "cache")
    delta_spark_names.load_delta_spark_names(gateway, loader)
    assert loader.loadClass("io.delta.tables.DeltaTable").equals(before)
    assert loader.loadClass("org.apache.spark.sql.delta.DeltaLog").getMethods()[0].getName() == "clearCache"


def test_sources_that_do_not_compile_are_named(gateway: Any, loader: Any, sources: Path) -> None:
    (sources / "Pair.java").write_text("package anabranch;\n\npublic class Pair extends Gone {}\n")
    with pytest.raises(
        ExtensionNotLoadedError,
        match=r"Spark 4\.\S+: they do not compile: File 'Pair\.java', Line 3, Column 19: Cannot",
    ):
        load_classes(gateway, loader, sources, None)


def test_a_spark_without_its_compiler_is_refused(
    gateway: Any, loader: Any, sources: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jvm_classes, "COMPILER", ("org.example.NoCompiler",))
    with pytest.raises(ExtensionNotLoadedError, match=r"without Janino"):
        load_classes(gateway, loader, sources, cache)


def test_a_jar_that_add_jar_gave_to_a_thread_does_not_hide_the_classes_from_others(gateway: Any, loader: Any) -> None:
    thread = gateway.jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)
    try:
        assert driver_loader(gateway.jvm).equals(before)
    finally:
        thread.setContextClassLoader(before)


def test_the_error_of_a_jvm_that_takes_no_jars(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_loaded", {})
    thread = gateway.jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(before.getParent())
    try:
        with pytest.raises(ExtensionNotLoadedError, match="no class loader that accepts jars"):
            load_extension(gateway)
    finally:
        thread.setContextClassLoader(before)


@pytest.mark.long
def test_two_processes_at_once(cache: Path) -> None:
    """The sources of this package compile. Afterwards there is one jar, which later starts and sessions take."""
    environment = {**os.environ, "ANABRANCH_CACHE": str(cache), "PYSPARK_PYTHON": sys.executable}

    def begin(program: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)

    both = [begin(STARTS), begin(STARTS)]
    for process in both:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        assert said.split()[-2:] in (["compiled", "delta.DefaultSource"], ["kept", "delta.DefaultSource"])
    assert len(list(cache.iterdir())) == 1

    said, _ = begin(STARTS_TWO_SESSIONS).communicate(timeout=300)
    assert said.split() == ["kept", "delta.DefaultSource", "kept", "delta.DefaultSource", "loaded"]
    assert len(list(cache.iterdir())) == 1
