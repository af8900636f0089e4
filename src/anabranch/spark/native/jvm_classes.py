"""Every JVM class of Spark's that the native binding uses, and where each release keeps it.

Spark moves its internal classes without notice, so a class is looked for at each place it is known from, and what no
place has is reported by name. Nothing here asks which version of Spark is running.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError

from anabranch.errors.spark import SparkClassMissingError

_SQL = "org.apache.spark.sql"
_DATASOURCES = f"{_SQL}.execution.datasources"
_STREAMING = f"{_SQL}.execution.streaming"

PLACES: dict[str, tuple[str, ...]] = {
    "BytesReader": ("org.apache.hadoop.io.WritableComparator",),
    "CheckpointFileManager": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
        f"{_STREAMING}.FileSystemBasedCheckpointFileManager",
    ),
    "CollectionConverters": ("scala.jdk.javaapi.CollectionConverters",),
    "DataType": (f"{_SQL}.types.DataType",),
    "ExpressionUtils": (f"{_SQL}.classic.ExpressionUtils",),
    "FileFormatWriter": (f"{_DATASOURCES}.FileFormatWriter",),
    "FileStreamSinkLog": (f"{_STREAMING}.sinks.FileStreamSinkLog", f"{_STREAMING}.FileStreamSinkLog"),
    "HadoopFsRelation": (f"{_DATASOURCES}.HadoopFsRelation",),
    "ManifestFileCommitProtocol": (f"{_STREAMING}.ManifestFileCommitProtocol",),
    "OutputSpec": (f"{_DATASOURCES}.FileFormatWriter$OutputSpec",),
    "ParquetFileFormat": (f"{_DATASOURCES}.parquet.ParquetFileFormat",),
    "PythonUtils": ("org.apache.spark.api.python.PythonUtils",),
    "SQLExecution": (f"{_SQL}.execution.SQLExecution",),
    "StaticInvoke": (f"{_SQL}.catalyst.expressions.objects.StaticInvoke",),
}
"""Under the name the binding uses: the places to look, newest release first."""

COMPILER = ("org.codehaus.janino.SimpleCompiler",)
"""The compiler that Spark generates its own code with. A distribution may have left it out."""


class JvmClasses:
    """The classes of one JVM. Attributes are the keys of `PLACES`."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._found: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """The class, for static methods and constructors. Raises `SparkClassMissingError`."""
        if name.startswith("_") or name not in PLACES:
            raise AttributeError(name)
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = _py4j_view(self._jvm, self._place_of(name))
        return found

    def java_class(self, name: str) -> Any:
        """The `java.lang.Class` itself. Raises `SparkClassMissingError`."""
        return load_class(self._jvm, self._place_of(name))

    def compiler(self) -> Any | None:
        """A new compiler of Java sources, or None where Spark's distribution has none."""
        for place in COMPILER:
            if load_class(self._jvm, place) is not None:
                return _py4j_view(self._jvm, place)()
        return None

    def _place_of(self, name: str) -> str:
        for place in PLACES[name]:
            if load_class(self._jvm, place) is not None:
                return place
        raise SparkClassMissingError(name=name, places=PLACES[name], spark_version=_spark_version(self._jvm))


def load_class(jvm: Any, name: str) -> Any | None:
    """The `java.lang.Class` of that name, or None."""
    try:
        return jvm.java.lang.Class.forName(name, False, class_loader(jvm))
    except Py4JJavaError:
        return None


def class_loader(jvm: Any) -> Any:
    """The loader that knows Spark's classes and the user's jars."""
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def object_array(gateway: Any, values: tuple[Any, ...]) -> Any:
    """`values` as a Java `Object[]`. A Python object that implements an interface cannot be among them."""
    array = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def _py4j_view(jvm: Any, place: str) -> Any:
    view = jvm
    for part in place.split("."):
        view = getattr(view, part)
    return view


def _spark_version(jvm: Any) -> str:
    return str(jvm.org.apache.spark.package.SPARK_VERSION())
