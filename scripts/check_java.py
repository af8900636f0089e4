"""Compiles our Java sources against the jars of each PySpark that is there, and has a JVM verify what comes out.

    python scripts/check_java.py 4.0 4.1 4.2 4.3

By the compiler that Spark ships, as at a start, which needs no more than a Java runtime. javac cannot take its place:
it knows the type parameters of Scala's classes, which the sources cannot name. The environments are .venv and
.venv-spark-VERSION. The exit code is 1 where something does not compile, where the compiler warns, or where it made
byte code that a JVM refuses: that compiler does so for a few forms of Java, as for two catch blocks with code behind
them, and such a class would fail in a user's driver at its first use. A version without an environment is told and no
failure.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from anabranch.connect_messages import message_plugin
from anabranch.errors.environment import ExtensionNotLoadedError
from anabranch.server import java_classes
from anabranch.spark.extension import delta_spark_names
from anabranch.spark.extension.compiled import classes_of_release, compile_unit
from anabranch.spark.extension.java_unit import JavaUnit, java_sources, java_unit
from anabranch.spark.extension.kept_jars import jar_bytes
from anabranch.spark.gateway.jvm_classes import JvmClasses, class_loader

ROOT = Path(__file__).parents[1]
ONE_UNIT = ROOT / "src/anabranch/spark/extension"
"""All files of this folder are one package and are compiled together."""

BUILT_ON_IT = {
    **{
        package: ROOT / "src/anabranch/connect_messages" / folder
        for package, (folder, _) in message_plugin.UNITS.items()
    },
    **{package: ONE_UNIT / folder for package, (folder, _) in delta_spark_names.UNITS.items()},
    java_classes.PACKAGE: ROOT / "src/anabranch/server" / java_classes.FOLDER,
}
"""Units that are built on that one, and each on those before it: by package, the folder of the sources."""

UNITS_OF_THEIR_OWN = ROOT / "src/anabranch/spark/native"
"""Each file of this folder is compiled by itself."""

STYLE = re.compile(r"\((IASM|IASF|IANSM|IANSF|MO|UMN|[A-Z]+DCM)\)$|Method name \"Authenticate\"")
"""What the compiler would have written otherwise: members with their class, @Override, comments, no `$`; and a name of
Hive's."""

WARNING_HANDLER = """
public class Warnings implements org.codehaus.commons.compiler.WarningHandler {
  private final StringBuilder told = new StringBuilder();

  public void handleWarning(String handle, String message, org.codehaus.commons.compiler.Location location) {
    told.append(location + ": " + message + " (" + handle + ")" + (char) 10);
  }

  public String taken() {
    String text = told.toString();
    told.setLength(0);
    return text;
  }
}
"""


def main(versions: list[str]) -> int:
    """Checks each version, and tells what was found."""
    environments = installed_sparks()
    failed = False
    for version in versions:
        jars = environments.get(version)
        if jars is None:
            print(f"not run: PySpark {version}, no environment", flush=True)
            continue
        problems = check(jars)
        failed = failed or bool(problems)
        found = "these problems" if problems else "compiles, and the JVM takes every class"
        print(f"PySpark {version}: {found}", *problems, sep="\n", flush=True)
    return int(failed)


def installed_sparks() -> dict[str, Path]:
    """The folder of jars by version, such as `4.3`, for each PySpark in an environment of this checkout."""
    found: dict[str, Path] = {}
    for ready in sorted(ROOT.glob(".venv*/.ready")):
        for core in ready.parent.glob("lib/python*/site-packages/pyspark/jars/spark-core_*.jar"):
            version = re.search(r"-(\d+\.\d+)[^-]*\.jar$", core.name)
            if version is not None:
                found.setdefault(version[1], core.parent)
    return found


def check(jars: Path) -> list[str]:
    """What is wrong with the sources for the Spark in `jars`."""
    with java_machine(jars) as gateway:
        classes = classes_of_release(gateway.jvm)
        warnings = warning_handler(gateway.jvm)
        found = [problem for unit in units(classes) for problem in problems_of(gateway, unit, warnings)]
        with ExitStack() as open_loaders:
            one_unit = java_unit(java_sources(ONE_UNIT), classes)
            loader = open_loaders.enter_context(loader_with(gateway, one_unit, class_loader(gateway.jvm)))
            for package, folder in BUILT_ON_IT.items():
                unit = java_unit(java_sources(folder), classes, package=package)
                if loader is not None:
                    found += problems_of(gateway, unit, warnings, loader)
                    loader = open_loaders.enter_context(loader_with(gateway, unit, loader))
        return [f"  {problem}" for problem in found]


@contextmanager
def loader_with(gateway: Any, unit: JavaUnit, loader: Any) -> Iterator[Any]:
    """A loader that has the classes of `unit` beside those of `loader`; None where they do not compile."""
    try:
        compiled = compile_unit(gateway.jvm, loader, unit, digest="0" * 32)
    except ExtensionNotLoadedError:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        jar = Path(folder, "classes.jar")
        jar.write_bytes(jar_bytes(compiled, digest="0" * 32))
        urls = gateway.new_array(gateway.jvm.java.net.URL, 1)
        urls[0] = gateway.jvm.java.io.File(str(jar)).toURI().toURL()
        with closing(gateway.jvm.java.net.URLClassLoader(urls, loader)) as found:
            yield found


def units(classes: Mapping[str, str]) -> Iterator[JavaUnit]:
    """What is compiled at a start."""
    together = java_sources(ONE_UNIT)
    if together:
        yield java_unit(together, classes)
    for name, text in java_sources(UNITS_OF_THEIR_OWN).items():
        lines = text.splitlines()
        yield JavaUnit(text=text, origins=tuple((name, number) for number, _ in enumerate(lines, start=1)))


def problems_of(gateway: Any, unit: JavaUnit, warnings: Any, loader: Any = None) -> list[str]:
    """What Spark's own compiler says against `unit`, and the JVM against its classes."""
    loader = class_loader(gateway.jvm) if loader is None else loader
    if warnings is None:
        return ["this PySpark came without Janino"]
    try:
        compiled = compile_unit(gateway.jvm, loader, unit, digest="0" * 32, warnings=warnings)
    except ExtensionNotLoadedError as error:
        return [f"Janino: {error.problem}"]
    told = [unit.explained(str(warning)) for warning in warnings.taken().splitlines()]
    return [f"Janino warns: {text}" for text in told if not STYLE.search(text)] + refused_classes(
        gateway, loader, compiled
    )


def warning_handler(jvm: Any) -> Any:
    """A handler of the compiler's warnings; `taken` gives them. None where there is no compiler."""
    compiler = JvmClasses(jvm).compiler()
    if compiler is None:
        return None
    compiler.setParentClassLoader(class_loader(jvm))
    compiler.cook(WARNING_HANDLER)
    return compiler.getClassLoader().loadClass("Warnings").getConstructors()[0].newInstance(None)


def refused_classes(gateway: Any, loader: Any, classes: dict[str, bytes]) -> list[str]:
    """What the JVM's verifier says of each class that it does not take."""
    jvm = gateway.jvm
    with tempfile.TemporaryDirectory() as folder:
        jar = Path(folder, "classes.jar")
        jar.write_bytes(jar_bytes(classes, digest="0" * 32))
        urls = gateway.new_array(jvm.java.net.URL, 1)
        urls[0] = jvm.java.io.File(str(jar)).toURI().toURL()
        with closing(jvm.java.net.URLClassLoader(urls, loader)) as verifying:
            return [
                f"{name}: {problem}"
                for name in sorted(classes)
                if (problem := verifier_problem(jvm, verifying, name)) is not None
            ]


def verifier_problem(jvm: Any, loader: Any, name: str) -> str | None:
    """A class is verified when it is initialized, not yet when it is found."""
    try:
        jvm.java.lang.Class.forName(name, True, loader)
    except Py4JJavaError as error:
        return str(error.java_exception.toString()).partition("  Current Frame:")[0].strip()
    return None


@contextmanager
def java_machine(jars: Path) -> Iterator[Any]:
    """A JVM with `jars`, without Spark running in it, as Py4J's gateway."""
    (py4j,) = jars.glob("py4j-*.jar")
    gateway = JavaGateway.launch_gateway(
        jarpath=str(py4j), classpath=f"{jars}/*", java_path=java_tool("java") or "java", die_on_exit=True
    )
    try:
        yield gateway
    finally:
        gateway.shutdown()


def java_tool(name: str) -> str | None:
    """A program of JAVA_HOME, else of the path."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(name, path=str(Path(home, "bin"))) if home else shutil.which(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
