"""Every JVM class of Spark's that the native binding uses, and where each release keeps it.

Spark moves its internal classes without notice, so a class is looked for at each place it is known from, and what no
place has is reported by name. Nothing here asks which version of Spark is running.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType

from anabranch.errors.environment import SparkClassMissingError

_SQL = "org.apache.spark.sql"
_DATASOURCES = f"{_SQL}.execution.datasources"
_STREAMING = f"{_SQL}.execution.streaming"

PLACES: dict[str, tuple[str, ...]] = {
    "ArrayList": ("java.util.ArrayList",),
    "CheckpointFileManager": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
        f"{_STREAMING}.FileSystemBasedCheckpointFileManager",
    ),
    "CollectionConverters": ("scala.jdk.javaapi.CollectionConverters",),
    "DataTypeUtils": (f"{_SQL}.catalyst.types.DataTypeUtils",),
    "Dataset": (f"{_SQL}.classic.Dataset",),
    "DataType": (f"{_SQL}.types.DataType",),
    "ExpressionUtils": (f"{_SQL}.classic.ExpressionUtils",),
    "FileFormatWriter": (f"{_DATASOURCES}.FileFormatWriter",),
    "FileStreamSinkLog": (f"{_STREAMING}.sinks.FileStreamSinkLog", f"{_STREAMING}.FileStreamSinkLog"),
    "HashMap": ("java.util.HashMap",),
    "ManifestFileCommitProtocol": (f"{_STREAMING}.ManifestFileCommitProtocol",),
    "Option": ("scala.Option",),
    "OutputSpec": (f"{_DATASOURCES}.FileFormatWriter$OutputSpec",),
    "ParquetFileFormat": (f"{_DATASOURCES}.parquet.ParquetFileFormat",),
    "PythonUtils": ("org.apache.spark.api.python.PythonUtils",),
    "SQLExecution": (f"{_SQL}.execution.SQLExecution",),
}
"""Under the name the binding uses: the places to look, newest release first."""

COMPILER = ("org.codehaus.janino.SimpleCompiler",)
"""The compiler that Spark generates its own code with. A distribution may have left it out."""


class JvmClasses:
    """The classes of one JVM. Attributes are the keys of `PLACES`."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._found: dict[str, Any] = {}
        self._places: dict[str, str] = {}
        self._java_classes: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """The class, for static methods and constructors. Raises `SparkClassMissingError`."""
        if name.startswith("_") or name not in PLACES:
            raise AttributeError(name)
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = KnownClass(_py4j_view(self._jvm, self.place_of(name)))
        return found

    def java_class(self, name: str) -> Any:
        """The `java.lang.Class` itself. Raises `SparkClassMissingError`."""
        found = self._java_classes.get(name)
        if found is None:
            found = self._java_classes[name] = load_class(self._jvm, self.place_of(name))
        return found

    def compiler(self) -> Any | None:
        """A new compiler of Java sources, or None where Spark's distribution has none."""
        for place in COMPILER:
            if load_class(self._jvm, place) is not None:
                return _py4j_view(self._jvm, place)()
        return None

    def place_of(self, name: str) -> str:
        """Its full name in this release. Raises `SparkClassMissingError`."""
        if name not in self._places:
            there = (place for place in PLACES[name] if load_class(self._jvm, place) is not None)
            found = next(there, None)
            if found is None:
                raise SparkClassMissingError(name=name, places=PLACES[name], spark_version=_spark_version(self._jvm))
            self._places[name] = found
        return self._places[name]


class KnownClass:
    """A class of the JVM. Py4J asks for a method before each call of it; here only before the first."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        """A static method, or a constant."""
        found = getattr(self._view, name)
        vars(self)[name] = found
        return found

    def __call__(self, *arguments: Any) -> Any:
        """A new object."""
        return self._view(*arguments)


class KnownPackage:
    """The classes of one package, in the same way."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        found = vars(self)[name] = KnownClass(getattr(self._view, name))
        return found


def load_class(jvm: Any, name: str) -> Any | None:
    """The `java.lang.Class` of that name, or None."""
    return loaded_by(class_loader(jvm), name)


def loaded_by(loader: Any, name: str) -> Any | None:
    """The class of that name that `loader` finds, or None."""
    return loader.loadClass(name) if has_class(loader, name) else None


def has_class(loader: Any, name: str) -> bool:
    """Whether `loader` finds a class. An exception that says no would cost a hundred calls."""
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


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


# Values that the JVM side takes: collections of Scala, schemas, expressions.


_TYPES_KEPT_MAX = 64
"""Schemas of the JVM that are kept: those of a table are the same from query to query."""


class JvmValues:
    """What one session's JVM is asked for again and again."""

    def __init__(self, spark: SparkSession) -> None:
        self.session: Any = spark._jsparkSession
        self.gateway: Any = spark.sparkContext._gateway
        jvm: Any = spark._jvm
        self.jvm = jvm
        self.classes = JvmClasses(jvm)
        self.delta: Any = KnownPackage(jvm.delta)
        """Our classes."""
        self.spark = spark
        self.context: Any = spark.sparkContext._jsc.sc()
        self._conf: Any = None
        self._types: dict[str, Any] = {}

    def seq(self, items: Iterable[Any]) -> Any:
        """An immutable Scala `Seq`."""
        gathered = self.classes.ArrayList()
        for item in items:
            gathered.add(item)
        return self.classes.CollectionConverters.asScala(gathered).toList()

    def string_map(self, entries: Mapping[str, str]) -> Any:
        """An immutable Scala `Map` of strings."""
        gathered = self.classes.HashMap()
        for key, value in entries.items():
            gathered.put(key, value)
        return self.classes.PythonUtils.toScalaMap(gathered)

    def none(self) -> Any:
        return self.classes.Option.empty()

    def some(self, value: Any) -> Any:
        return self.classes.Option.apply(value)

    def type(self, data_type: DataType) -> Any:
        """A type or schema of Spark's own."""
        text = data_type.json()
        found = self._types.get(text)
        if found is None:
            found = self.classes.DataType.fromJson(text)
            if len(self._types) >= _TYPES_KEPT_MAX:
                self._types.clear()
            self._types[text] = found
        return found

    def setting(self, key: str) -> str:
        """A setting of the session, its default where it is not set."""
        if self._conf is None:
            self._conf = self.session.sessionState().conf()
        return str(self._conf.getConfString(key))


def joined_map(entries: Mapping[str, str]) -> str:
    """Keys and values in one text, parted by NUL, as our Java classes take them; none holds NUL."""
    return "\0".join(part for entry in entries.items() for part in entry)


def column_of(jvm_column: Any) -> Column:
    """A column of the JVM's as PySpark's."""
    return ClassicColumn(jvm_column)
