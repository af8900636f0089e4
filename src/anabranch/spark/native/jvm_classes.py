"""Every JVM class of Spark's that the native binding uses, and where each release keeps it.

Spark moves its internal classes without notice, so a class is looked for at each place it is known from, and what no
place has is reported by name. Nothing here asks which version of Spark is running.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType

from anabranch.errors.environment import SparkClassMissingError

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


# Values that the JVM side takes: collections of Scala, schemas, expressions.


class JvmValues:
    """What one session's JVM is asked for again and again."""

    def __init__(self, spark: SparkSession) -> None:
        self.session: Any = spark._jsparkSession
        self.gateway: Any = spark.sparkContext._gateway
        self.jvm: Any = spark._jvm
        self.classes = JvmClasses(self.jvm)
        self.spark = spark

    def seq(self, items: Iterable[Any]) -> Any:
        """An immutable Scala `Seq`."""
        gathered = self.jvm.java.util.ArrayList()
        for item in items:
            gathered.add(item)
        return self.classes.CollectionConverters.asScala(gathered).toList()

    def string_map(self, entries: Mapping[str, str]) -> Any:
        """An immutable Scala `Map` of strings."""
        gathered = self.jvm.java.util.HashMap()
        for key, value in entries.items():
            gathered.put(key, value)
        return self.classes.PythonUtils.toScalaMap(gathered)

    def none(self) -> Any:
        return self.jvm.scala.Option.empty()

    def some(self, value: Any) -> Any:
        return self.jvm.scala.Option.apply(value)

    def string_array(self, items: Iterable[str]) -> Any:
        values = list(items)
        array = self.gateway.new_array(self.jvm.java.lang.String, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array

    def type(self, data_type: DataType) -> Any:
        """A type or schema of Spark's own."""
        return self.classes.DataType.fromJson(data_type.json())

    def setting(self, key: str) -> str:
        """A setting of the session, its default where it is not set."""
        return str(self.session.sessionState().conf().getConfString(key))

    def frame(self, relation: Any) -> DataFrame:
        """A relation as a DataFrame of the session."""
        return DataFrame(self.session.baseRelationToDataFrame(relation), self.spark)

    def static_call(self, owner: str, method: str, result: DataType, *arguments: Column) -> Column:
        """A call to a static method of a class that executors have, as a column; null for a null argument."""
        utils = self.classes.ExpressionUtils
        inputs = self.seq(utils.expression(argument._jc) for argument in arguments)
        call = self.classes.StaticInvoke(
            self.classes.java_class(owner),
            self.type(result),
            method,
            inputs,
            self.seq(()),
            True,
            False,
            True,
            self.none(),
        )
        return column_of(utils.column(call))


def column_of(jvm_column: Any) -> Column:
    """A column of the JVM's as PySpark's."""
    return ClassicColumn(jvm_column)
