"""Statements that Spark's parser does not know."""

from __future__ import annotations

import functools
import json
from typing import Any, NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

from anabranch.callbacks.answer_tables import whole_table_of
from anabranch.callbacks.driver import Driver
from anabranch.callbacks.resolved_commands import Command
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
from anabranch.spark.gateway.callback_endpoint import Answer
from anabranch.spark.session.session_settings import parse_flag
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
"""Lists in Hive's form; `delta.Listings` gives those of tables and views."""


class OwnStatements:
    """Statements that Spark's parser does not know.

    The facts of their commands are a Seq of expressions: the text, and the parameters in it, which Spark binds.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._grammar = OwnGrammar.beside(self._spark_parses)

    def answers(self) -> dict[str, Answer]:
        return {"parse": self.parse}

    def commands(self) -> dict[str, Command]:
        return {_COMMAND: Command(run=self.run)}

    def parse(self, session: Any, text: str) -> Any:
        """The command for a text; None for what Spark's parser is to read, or to refuse. Raises `SqlSyntaxError`."""
        read = as_quoted_names(self._driver.session(session), text)
        found = self._grammar.statement_of(read)
        if found is None:
            return None
        jvm = self._driver.jvm.org.apache.spark.sql
        written = jvm.catalyst.expressions.Literal.create(read, jvm.types.DataType.fromJson('"string"'))
        markers = [
            jvm.catalyst.analysis.NamedParameter(marker)
            if isinstance(marker, str)
            else jvm.catalyst.analysis.PosParameter(marker)
            for marker in found.markers
        ]
        return self._driver.command(_COMMAND, self._driver.seq([written, *markers]), found.output)

    def run(self, session: Any, facts: Any) -> Any:
        """The rows of its result."""
        text, *parameters = self._driver.list(facts)
        written = str(text.value().toString())
        found = self._grammar.statement_of(written)
        assert found is not None
        values = found.parameters([self._driver.column(each) for each in parameters])
        asking = self._driver.session(session)
        asking.describe_jobs(" ".join(written.split())[:_DESCRIPTION_MAX])
        return self._driver.rows_of(found.run(asking, values))

    def _spark_parses(self, text: str) -> bool:
        # Spark's own: that of the session would ask us again.
        try:
            self._driver.jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlan(text)
        except (ParseException, Py4JJavaError):
            return False
        return True


# Statements that tell of a table, where Spark itself would refuse, or tell less than there is.


_REFUSED = {
    "AnalyzeTable": ("ANALYZE TABLE", "The log has statistics of every file already."),
    "AnalyzeColumn": ("ANALYZE TABLE", "The log has statistics of every file already."),
    "InsertIntoDir": ("INSERT OVERWRITE DIRECTORY", "Write to delta.`/folder`, or by df.write.format('delta')."),
    "RepairTable": ("MSCK REPAIR TABLE", "The log knows all partitions."),
}


class Descriptions:
    """Tells of tables."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def answers(self) -> dict[str, Answer]:
        return {}

    def commands(self) -> dict[str, Command]:
        refused = {name: Command(run=_never, check=functools.partial(_refuse, *why)) for name, why in _REFUSED.items()}
        return {
            "ShowPartitions": Command(run=self.show_partitions, result=self._partition_columns),
            "ShowCreateTable": Command(run=self.show_create_table, result=SCHEMA),
            "DescribeRelationJsonCommand": Command(run=self.describe_as_json, result=JSON_SCHEMA),
            "TruncatePartition": Command(run=_never, check=_refuse_partition),
            **refused,
        }

    def show_partitions(self, session: Any, plan: Any) -> Any:
        """The rows of SHOW PARTITIONS."""
        table = self._table(session, plan)
        wanted = self._driver.delta.Statements.partition(plan)
        schema = table.latest().schema
        values = (
            {} if wanted is None else {name: _value(schema, name, text) for name, text in json.loads(wanted).items()}
        )
        show = show_partitions_as_hive if _lists_as_hive(table) else show_partitions
        return self._driver.rows_of(show(table, values))

    def show_create_table(self, session: Any, plan: Any) -> Any:
        """The row of SHOW CREATE TABLE: a statement with all that makes such a table, constraints among it."""
        return self._driver.rows_of(show_create_table(self._table(session, plan)))

    def describe_as_json(self, session: Any, plan: Any) -> Any:
        """The row of DESCRIBE … AS JSON."""
        return self._driver.rows_of(describe_as_json(self._table(session, plan)))

    def _partition_columns(self, session: Any, plan: Any) -> StructType:
        table = self._table(session, plan)
        if _lists_as_hive(table):
            return PARTITION_SCHEMA
        snapshot = table.latest()
        return StructType([snapshot.schema[name] for name in snapshot.partition_columns])

    def _table(self, session: Any, plan: Any) -> TableRef:
        own, table = self._driver.session(session), self._driver.delta.Statements.tableOf(plan)
        return whole_table_of(self._driver, own, table, statement=_STATEMENTS[str(plan.nodeName())])


def _lists_as_hive(table: TableRef) -> bool:
    return parse_flag(_HIVE_LISTINGS, table.session.spark.conf.get(_HIVE_LISTINGS, None) or "false")


def _value(schema: StructType, name: str, text: str | None) -> Column:
    """A value of PARTITION (…), which Spark gives as text."""
    field: StructField | None = next((field for field in schema.fields if field.name.lower() == name.lower()), None)
    return F.lit(text) if field is None else F.lit(text).cast(field.dataType)


def _refuse(operation: str, instead: str, session: Any, plan: Any) -> NoReturn:
    raise UnsupportedOperationError(operation=f"{operation} of a Delta table", instead=instead)


def _refuse_partition(session: Any, plan: Any) -> NoReturn:
    instead = "Use DELETE FROM … WHERE to delete the rows of a partition."
    raise PartitionTruncationError(operation="TRUNCATE TABLE … PARTITION of a Delta table", instead=instead)


def _never(session: Any, plan: Any) -> NoReturn:
    raise AssertionError("the check has refused it")
