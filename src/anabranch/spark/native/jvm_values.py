"""Values that the JVM side takes: collections of Scala, schemas, expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import DataType

from anabranch.spark.native.jvm_classes import JvmClasses


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
