"""The JVM classes that the native engine uses: Spark's, with their full names in each release, and functions of ours.

Spark moves its internal classes without notice, so each known name of a class is tried, and an error names a class that
has none of its names. The version of Spark decides nothing here.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType

from anabranch.errors.environment import SparkClassMissingError
from anabranch.patches import patch

_SQL = "org.apache.spark.sql"
_DATASOURCES = f"{_SQL}.execution.datasources"
_STREAMING = f"{_SQL}.execution.streaming"

CLASS_NAMES: dict[str, tuple[str, ...]] = {
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
    "ParquetRewriter": ("org.apache.parquet.hadoop.rewrite.ParquetRewriter",),
    "Path": ("org.apache.hadoop.fs.Path",),
    "PythonUtils": ("org.apache.spark.api.python.PythonUtils",),
    "RewriteOptionsBuilder": ("org.apache.parquet.hadoop.rewrite.RewriteOptions$Builder",),
    "SQLExecution": (f"{_SQL}.execution.SQLExecution",),
}
"""By the name that the engine uses: the full names to try, newest release first."""

COMPILER = ("org.codehaus.janino.Compiler",)
"""The compiler that Spark generates its own code with. A distribution may have left it out."""


class JvmClasses:
    """The classes of one JVM. Attributes are the keys of `CLASS_NAMES`."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._full_names: dict[str, str] = {}
        self._java_classes: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        """The class, for static methods and constructors. Raises `SparkClassMissingError`."""
        if name.startswith("_") or name not in CLASS_NAMES:
            raise AttributeError(name)
        cached = vars(self)[name] = CachedClass(_py4j_view(self._jvm, self.full_name(name)))
        return cached

    def java_class(self, name: str) -> Any:
        """The `java.lang.Class` itself. Raises `SparkClassMissingError`."""
        java_class = self._java_classes.get(name)
        if java_class is None:
            java_class = self._java_classes[name] = load_class(self._jvm, self.full_name(name))
        return java_class

    def compiler(self) -> Any | None:
        """A new compiler of Java sources, or None where Spark's distribution has none."""
        for full_name in COMPILER:
            if load_class(self._jvm, full_name) is not None:
                return _py4j_view(self._jvm, full_name)()
        return None

    def full_name(self, name: str) -> str:
        """The full name of the class in this release. Raises `SparkClassMissingError`."""
        if name not in self._full_names:
            existing = (full_name for full_name in CLASS_NAMES[name] if load_class(self._jvm, full_name) is not None)
            first = next(existing, None)
            if first is None:
                raise SparkClassMissingError(
                    name=name, places=CLASS_NAMES[name], spark_version=_spark_version(self._jvm)
                )
            self._full_names[name] = first
        return self._full_names[name]


class CachedClass:
    """A class of the JVM. Py4J looks a method up before each call; this does so only before the first."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        """A static method, or a constant."""
        member = getattr(self._view, name)
        vars(self)[name] = member
        return member

    def __call__(self, *arguments: Any) -> Any:
        """A new object."""
        return self._view(*arguments)


class CachedPackage:
    """The classes of one package, each looked up once."""

    def __init__(self, view: Any) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        view = getattr(self._view, name)
        if isinstance(view, JavaClass):
            view = CachedClass(view)
        if isinstance(view, CachedClass):
            # Not a package below this one, in which classes may be loaded later.
            vars(self)[name] = view
        return view


_LOOKED_UP_OFTEN = (
    "PythonUtils",
    "functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.functions",
)
"""Classes of which PySpark looks up name and method for each call, as it writes their names."""


def cache_lookups(purpose: str, jvm: Any) -> None:
    """Makes PySpark, and us, look up often used classes of the JVM and their methods once: a lookup is a call of it.

    `patches.undo(purpose)` ends it.
    """
    for name in _LOOKED_UP_OFTEN:
        patch(purpose, jvm, name, CachedClass)
    for package in ("anabranch", "delta"):
        patch(purpose, jvm, package, CachedPackage)


def load_class(jvm: Any, name: str) -> Any | None:
    """The `java.lang.Class` of that name, or None."""
    return loaded_by(class_loader(jvm), name)


def loaded_by(loader: Any, name: str) -> Any | None:
    """The class of that name, by `loader`, or None."""
    return loader.loadClass(name) if has_class(loader, name) else None


def has_class(loader: Any, name: str) -> bool:
    """Whether `loader` has a class. To catch an exception instead would take a hundred calls."""
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


def class_loader(jvm: Any) -> Any:
    """The class loader with Spark's classes and the user's jars."""
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _py4j_view(jvm: Any, full_name: str) -> Any:
    view = jvm
    for part in full_name.split("."):
        view = getattr(view, part)
    return view


def _spark_version(jvm: Any) -> str:
    return str(jvm.org.apache.spark.package.SPARK_VERSION())


_TYPES_KEPT_MAX = 64
"""How many of the JVM's schemas are kept: those of a table are the same from query to query."""


class JvmValues:
    """The objects of one session's JVM that the engine uses often: classes, collections, schemas, settings."""

    def __init__(self, spark: SparkSession) -> None:
        self.session: Any = spark._jsparkSession
        self.gateway: Any = spark.sparkContext._gateway
        jvm: Any = spark._jvm
        self.jvm = jvm
        self.classes = JvmClasses(jvm)
        self.anabranch: Any = CachedPackage(jvm.anabranch)
        """Our Java classes."""
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
        """The JVM's object for a type or schema."""
        text = data_type.json()
        jvm_type = self._types.get(text)
        if jvm_type is None:
            jvm_type = self.classes.DataType.fromJson(text)
            if len(self._types) >= _TYPES_KEPT_MAX:
                self._types.clear()
            self._types[text] = jvm_type
        return jvm_type

    def setting(self, key: str) -> str:
        """A setting of the session, its default where it is not set."""
        if self._conf is None:
            self._conf = self.session.sessionState().conf()
        return str(self._conf.getConfString(key))


def joined_map(entries: Mapping[str, str]) -> str:
    """Keys and values in one text, separated by NUL, as our Java classes read them; none contains NUL."""
    return "\0".join(itertools.chain.from_iterable(entries.items()))


def split_map(text: str) -> dict[str, str]:
    """The map in a text of our Java classes, in which each key and each value ends with NUL."""
    parts = text.split("\0")
    return dict(zip(parts[:-1:2], parts[1::2], strict=True))


def column_of(jvm_column: Any) -> Column:
    """PySpark's Column for one of the JVM."""
    return ClassicColumn(jvm_column)


def cast(value: Column, to: DataType) -> Column:
    """The value cast as by `Column.cast`."""
    return column_of(_functions().cast(jvm_column(value), to.json()))


def legacy_cast(value: Column, to: DataType) -> Column:
    """The value cast by the policy LEGACY, for any ANSI setting: numbers wrap around, invalid text becomes null."""
    return column_of(_functions().legacyCast(jvm_column(value), to.json()))


def checked_cast(value: Column, to: DataType, failure: str) -> Column:
    """The value cast; where it does not fit, the job fails with the text and the value, as `refused` says."""
    return column_of(_functions().checkedCast(jvm_column(value), to.json(), failure))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SelectedColumn:
    """A column of a frame under another name, which has no NUL."""

    position: int
    name: str
    to: DataType | None = None
    """The type to which it is cast, if it is."""
    failure: str = ""
    """For `checked_cast`; without it, the cast is that of `cast`."""


def select(frame: DataFrame, columns: Sequence[SelectedColumn | Column | str], computed: Any = None) -> DataFrame:
    """The frame with these columns, all of which but those that are a `Column` are made by one call.

    A string is a name, as for `DataFrame.select`. `computed` is a list of further columns, from `case_when`, which is
    used up.
    """
    parts: list[str] = []
    others: list[Any] = []
    for column in columns:
        if isinstance(column, SelectedColumn):
            kind = "" if column.to is None else column.to.json()
            parts += [str(column.position), column.name, kind, column.failure]
        elif isinstance(column, str) and "\0" not in column:
            parts += ["", column, "", ""]
        else:
            parts += ["", "", "", ""]
            others.append(jvm_column(F.col(column) if isinstance(column, str) else column))
    if computed is not None and others:
        computed.addAll(0, others)
    text = "".join(f"{part}\0" for part in parts)
    more = others or None if computed is None else computed
    return DataFrame(_functions().select(frame._jdf, text, more), frame.sparkSession)


def select_sql(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """`DataFrame.selectExpr` by one call."""
    if any("\0" in column for column in columns):
        return frame.selectExpr(*columns)
    return DataFrame(
        _functions().selectSql(frame._jdf, "".join(f"{column}\0" for column in columns)), frame.sparkSession
    )


def case_when(
    conditions: Sequence[Column], values: Sequence[Sequence[Column | None]], names: Sequence[str], *, otherwise: bool
) -> Any:
    """Columns of these names with the values of the first condition that is true, as a list of the JVM for `select`.

    `values` are by condition, then by column; None stands for NULL. Where no condition is true, the value is NULL, or
    with `otherwise` that of the column of the same name.
    """
    listed = [None if value is None else jvm_column(value) for of_condition in values for value in of_condition]
    text = "".join(f"{name}\0" for name in names)
    return _functions().caseWhen([jvm_column(condition) for condition in conditions], listed, text, otherwise)


def refused(violated: Column, value: Column, failure: str, shown: dict[str, Column]) -> Column:
    """`value`, unless `violated` is true in a row: then the job fails with the text and `shown`, one or two columns.

    They are strings in a JSON object after the text, by these names.
    """
    columns = [*map(jvm_column, shown.values()), None, None][:2]
    return column_of(_functions().refused(jvm_column(violated), jvm_column(value), failure, "\0".join(shown), *columns))


def _functions() -> Any:
    context: Any = SparkContext._active_spark_context
    return context._jvm.anabranch.ColumnFunctions


def jvm_column(column: Any) -> Any:
    """The JVM's column for one of PySpark."""
    return column._jc
