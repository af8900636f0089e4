"""Statements that Spark's parser does not know, and statements that describe a table."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

from anabranch.booleans import parse_flag
from anabranch.callbacks.driver import Driver
from anabranch.callbacks.resolved_commands import Command
from anabranch.callbacks.table_handler import whole_table_of
from anabranch.commands.describe.describe_table import SCHEMA as JSON_SCHEMA
from anabranch.commands.describe.describe_table import describe_as_json
from anabranch.commands.describe.show_table import (
    PARTITION_SCHEMA,
    SCHEMA,
    show_create_table,
    show_partitions,
    show_partitions_as_hive,
)
from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import PartitionTruncationError, UnsupportedOperationError
from anabranch.sql.literals import as_quoted_names
from anabranch.sql.own.own_statement import OwnGrammar

_COMMAND = "OwnStatement"
_STATEMENTS = {
    "ShowPartitions": "SHOW PARTITIONS",
    "ShowCreateTable": "SHOW CREATE TABLE",
    "DescribeRelationJsonCommand": "DESCRIBE AS JSON",
}
_DESCRIPTION_MAX = 100
_HIVE_LISTINGS = "spark.anabranch.hiveListings"
"""The setting for lists in Hive's form; `anabranch.HiveListings` makes those of tables and views."""


class OwnStatementHandler:
    """Parses and runs statements that Spark's parser does not know.

    Such a command has a Seq of expressions: the text, and its parameters, which Spark binds.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._grammar = OwnGrammar.beside(self._spark_parses)

    def parse_own_statement(self, session: Any, text: str) -> Any:
        """The command for a text; None for a text that Spark's parser must read or refuse. Raises `SqlSyntaxError`."""
        sql = as_quoted_names(self._driver.session(session), text)
        statement = self._grammar.statement_of(sql)
        if statement is None:
            return None
        jvm = self._driver.jvm.org.apache.spark.sql
        literal = jvm.catalyst.expressions.Literal.create(sql, jvm.types.DataType.fromJson('"string"'))
        markers = [
            jvm.catalyst.analysis.NamedParameter(marker)
            if isinstance(marker, str)
            else jvm.catalyst.analysis.PosParameter(marker)
            for marker in statement.markers
        ]
        return self._driver.command(_COMMAND, self._driver.seq([literal, *markers]), statement.output)

    def _run(self, session: Any, parts: Any) -> Any:
        """The rows of the statement's result."""
        literal, *parameters = self._driver.list(parts)
        sql = str(literal.value().toString())
        statement = self._grammar.statement_of(sql)
        assert statement is not None
        values = statement.parameters([self._driver.column(parameter) for parameter in parameters])
        delta_session = self._driver.session(session)
        delta_session.describe_jobs(" ".join(sql.split())[:_DESCRIPTION_MAX])
        return self._driver.rows_of(statement.run(delta_session, values))

    def _spark_parses(self, text: str) -> bool:
        # A parser of Spark's own: the session's would call this handler again.
        try:
            self._driver.jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlan(text)
        except (ParseException, Py4JJavaError):
            return False
        return True

    run = Command(run=_run)


# Statements that describe a table and that Spark itself would refuse, or would answer incompletely.


def _refused(operation: str, instead: str) -> Command:
    def refuse(handler: DescriptionHandler, session: Any, plan: Any) -> NoReturn:
        raise UnsupportedOperationError(operation=f"{operation} of a Delta table", instead=instead)

    return Command(run=_never, check=refuse)


def _refuse_partition(handler: DescriptionHandler, session: Any, plan: Any) -> NoReturn:
    instead = "Use DELETE FROM … WHERE to delete the rows of a partition."
    raise PartitionTruncationError(operation="TRUNCATE TABLE … PARTITION of a Delta table", instead=instead)


def _never(handler: DescriptionHandler, session: Any, plan: Any) -> NoReturn:
    raise AssertionError("the check has refused it")


class DescriptionHandler:
    """Runs statements that describe tables, and refuses those that have no meaning for a Delta table."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def _show_partitions(self, session: Any, plan: Any) -> Any:
        """The rows of SHOW PARTITIONS."""
        table = self._table(session, plan)
        partition = self._driver.anabranch.TableStatements.partition(plan)
        schema = table.latest().schema
        values = (
            {}
            if partition is None
            else {name: _value(schema, name, text) for name, text in json.loads(partition).items()}
        )
        show = show_partitions_as_hive if _lists_as_hive(table) else show_partitions
        return self._driver.rows_of(show(table, values))

    def _show_create_table(self, session: Any, plan: Any) -> Any:
        """The row of SHOW CREATE TABLE: a statement that creates an equal table, with its constraints."""
        return self._driver.rows_of(show_create_table(self._table(session, plan)))

    def _describe_as_json(self, session: Any, plan: Any) -> Any:
        """The row of DESCRIBE … AS JSON."""
        return self._driver.rows_of(describe_as_json(self._table(session, plan)))

    def _partition_columns(self, session: Any, plan: Any) -> StructType:
        table = self._table(session, plan)
        if _lists_as_hive(table):
            return PARTITION_SCHEMA
        snapshot = table.latest()
        return StructType([snapshot.schema[name] for name in snapshot.partition_columns])

    def _table(self, session: Any, plan: Any) -> TableRef:
        delta_session, table = self._driver.session(session), self._driver.anabranch.TableStatements.tableOf(plan)
        return whole_table_of(self._driver, delta_session, table, statement=_STATEMENTS[str(plan.nodeName())])

    show_partitions = Command(run=_show_partitions, result=_partition_columns)
    show_create_table = Command(run=_show_create_table, result=SCHEMA)
    describe_as_json = Command(run=_describe_as_json, result=JSON_SCHEMA)
    analyze = _refused("ANALYZE TABLE", "The log has statistics of every file already.")
    insert_into_folder = _refused(
        "INSERT OVERWRITE DIRECTORY", "Write to delta.`/folder`, or by df.write.format('delta')."
    )
    repair = _refused("MSCK REPAIR TABLE", "The log has all partitions.")
    truncate_partition = Command(run=_never, check=_refuse_partition)


def _lists_as_hive(table: TableRef) -> bool:
    return parse_flag(_HIVE_LISTINGS, table.session.spark.conf.get(_HIVE_LISTINGS, None) or "false")


def _value(schema: StructType, name: str, text: str | None) -> Column:
    """A value of PARTITION (…), which Spark passes as text."""
    field: StructField | None = next((field for field in schema.fields if field.name.lower() == name.lower()), None)
    return F.lit(text) if field is None else F.lit(text).cast(field.dataType)
