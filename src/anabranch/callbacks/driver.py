"""The JVM of the driver: its sessions, and conversion of values to and from it."""

from __future__ import annotations

import datetime
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession

from anabranch.spark.gateway.jvm_classes import JvmClasses, column_of, split_map
from anabranch.spark.session.delta_session import DeltaSession

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


class Driver:
    """One JVM, with the sessions and conversions that handlers of its calls need."""

    def __init__(self, jvm: Any, sessions: weakref.WeakValueDictionary[str, SparkSession]) -> None:
        """`sessions` are the user's, by identity. Weak references let a session end when the user drops it."""
        self.jvm = jvm
        self._classes = JvmClasses(jvm)
        self.anabranch: Any = jvm.anabranch
        """Our classes."""
        self._sessions = sessions
        self._lock = threading.Lock()

    def spark(self, session: Any) -> SparkSession:
        """The session of PySpark for a session of the JVM."""
        key = str(session.sessionUUID())
        with self._lock:
            spark = self._sessions.get(key)
            if spark is None:
                # Not the first context if the user has stopped that one.
                context = SparkContext._active_spark_context
                assert context is not None
                spark = self._sessions[key] = SparkSession(context, session)
            return spark

    def session(self, session: Any) -> DeltaSession:
        """The `DeltaSession` of a session of the JVM."""
        return DeltaSession.of(self.spark(session))

    # Plans.

    def frame(self, session: Any, plan: Any) -> DataFrame:
        """The rows of a plan."""
        rows = self._classes.Dataset.ofRows(session, plan)
        return DataFrame(rows, self.spark(session))

    def column(self, expression: Any) -> Column:
        """A resolved expression as a column, for frames that have its attributes."""
        return column_of(self._classes.ExpressionUtils.column(expression))

    def command(self, what: str, facts: Any, output: Any) -> Any:
        """An `anabranch.PythonCommand`; `output` is the schema of its result."""
        attributes = self._classes.DataTypeUtils.toAttributes(self.type(output))
        return self.anabranch.PythonCommand(what, facts, attributes)

    # Values.

    def type(self, data_type: Any) -> Any:
        return self._classes.DataType.fromJson(data_type.json())

    def seq(self, values: Iterable[Any]) -> Any:
        return self._classes.PythonUtils.toSeq(list(values))

    def list(self, seq: Any) -> list[Any]:
        """The elements of a Scala Seq."""
        return [seq.apply(index) for index in range(seq.size())]

    def string_map(self, entries: Any) -> dict[str, str]:
        """The entries of a Scala Map of strings."""
        return self.java_map(self._classes.CollectionConverters.asJava(entries))

    def java_map(self, entries: Any) -> dict[str, str]:
        """The entries of a `java.util.Map` of strings."""
        # An iteration over a map of the JVM ends with an error, whose kind PySpark finds out by a hundred calls.
        return split_map(self.anabranch.TableFields.entries(entries))

    def path(self, uri: Any) -> str:
        """A `java.net.URI`, decoded, as Hadoop writes paths."""
        return str(self.jvm.org.apache.hadoop.fs.Path(uri).toString())

    def numbers(self, *values: int) -> Any:
        """A Seq of one Row of longs."""
        return self.anabranch.CommandResult.numbers(",".join(map(str, values)))

    def rows_of(self, frame: DataFrame | None) -> Any:
        """The rows of a small frame as a Scala Seq."""
        if frame is None:
            return self.seq([])
        collected: Any = frame._jdf.collectAsList()
        return self._classes.CollectionConverters.asScala(collected).toSeq()


def joined(parts: Iterable[str]) -> str:
    """Texts separated by NUL, as our Java classes read them; no text may contain NUL."""
    return "\0".join(parts)


def time_of_micros(micros: int) -> datetime.datetime:
    """A time as Catalyst has it, in microseconds since 1970."""
    return _EPOCH + datetime.timedelta(microseconds=micros)


class StatementExecution:
    """One execution of a statement, in which each table that it reads has one version."""

    def __init__(self, driver: Driver, session: Any) -> None:
        self._driver = driver
        self._session = session
        self._number = driver.anabranch.ChooseVersions.next()

    def with_versions(self, plan: Any) -> Any:
        """The plan with the rows of the chosen version for each table."""
        return self._driver.anabranch.ChooseVersions.chosen(self._session, plan, self._number)

    def frame(self, plan: Any) -> DataFrame:
        """The rows of the plan, from Spark's cache where the user has cached them.

        Functions of the current time are constants in it, so that all jobs of the statement read the same rows.
        """
        chosen = self.with_versions(self._driver.anabranch.UserCache.used(self._session, plan))
        return self._driver.frame(self._session, self._driver.anabranch.PlanFunctions.atOneTime(chosen))

    def condition(self, relation: Any, expression: Any) -> Column | None:
        """A condition on a table's leaf, as a column; None for one that is always true."""
        if str(expression.sql()) == "true":
            return None
        plans = self._driver.jvm.org.apache.spark.sql.catalyst.plans.logical
        return self._driver.column(self.with_versions(plans.Filter(expression, relation)).condition())
