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
from collections.abc import Iterator
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
from anabranch.spark.extension.java_unit import PACKAGE, JavaUnit, java_sources, java_unit
from anabranch.spark.extension.kept_jars import jar_bytes
from anabranch.spark.gateway.jvm_classes import class_loader

ROOT = Path(__file__).parents[1]
EXTENSION = ROOT / "src/anabranch/spark/extension"
UNITS = {
    PACKAGE: EXTENSION / "java",
    **{
        package: ROOT / "src/anabranch/connect_messages" / folder
        for package, (folder, _) in message_plugin.UNITS.items()
    },
    **{package: EXTENSION / folder for package, (folder, _) in delta_spark_names.UNITS.items()},
    java_classes.PACKAGE: ROOT / "src/anabranch/server" / java_classes.FOLDER,
}
"""The folder of the sources of each unit, by its package. A unit may use the classes of those before it."""

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
    problems: list[str] = []
    with java_machine(jars) as gateway, ExitStack() as open_loaders:
        classes, warnings = classes_of_release(gateway.jvm), warning_handler(gateway.jvm)
        loader = class_loader(gateway.jvm)
        for package, folder in UNITS.items():
            unit = java_unit(java_sources(folder), classes, package=package)
            of_unit, loader = open_loaders.enter_context(checked(gateway, unit, warnings, loader))
            problems += [f"  {problem}" for problem in of_unit]
            if loader is None:
                break
    return problems


@contextmanager
def checked(gateway: Any, unit: JavaUnit, warnings: Any, loader: Any) -> Iterator[tuple[list[str], Any]]:
    """What Spark's own compiler says against `unit`, and the JVM against its classes; and a loader that has these.

    The loader is None where the unit does not compile.
    """
    try:
        compiled = compile_unit(gateway, loader, unit, digest="0" * 32, warnings=warnings)
    except ExtensionNotLoadedError as error:
        yield [f"Janino: {error.problem}"], None
        return
    warned = [f"Janino warns: {text}" for text in str(warnings.taken()).splitlines() if not STYLE.search(text)]
    with loader_with(gateway, compiled, loader) as verifying:
        refused = ((name, verifier_problem(gateway.jvm, verifying, name)) for name in sorted(compiled))
        yield [*warned, *(f"{name}: {problem}" for name, problem in refused if problem is not None)], verifying


@contextmanager
def loader_with(gateway: Any, classes: dict[str, bytes], loader: Any) -> Iterator[Any]:
    """A loader that has `classes` beside those of `loader`."""
    with tempfile.TemporaryDirectory() as folder:
        jar = Path(folder, "classes.jar")
        jar.write_bytes(jar_bytes(classes, digest="0" * 32))
        urls = gateway.new_array(gateway.jvm.java.net.URL, 1)
        urls[0] = gateway.jvm.java.io.File(str(jar)).toURI().toURL()
        with closing(gateway.jvm.java.net.URLClassLoader(urls, loader)) as made:
            yield made


def warning_handler(jvm: Any) -> Any:
    """A handler of the compiler's warnings; `taken` gives them."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(class_loader(jvm))
    compiler.cook(WARNING_HANDLER)
    return compiler.getClassLoader().loadClass("Warnings").getConstructors()[0].newInstance(None)


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
