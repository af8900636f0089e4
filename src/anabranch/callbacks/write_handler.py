"""Writes of rows: commands that Spark has resolved, and `save`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pyspark.sql import Column, DataFrame

from anabranch.callbacks.driver import Driver, StatementExecution
from anabranch.callbacks.resolved_commands import Command
from anabranch.callbacks.staging_handler import STAGED_OPTION, StagingHandler
from anabranch.callbacks.table_handler import TableFacts, bound, check_whole_table, facts_of
from anabranch.commands.dml.assignments import default_keyword_value
from anabranch.commands.write.write_command import save, write_frame
from anabranch.commands.write.write_options import ON, USING, MatchCondition, WriteOptions
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.dml import FilterOverwriteError, PartitionOverwriteError
from anabranch.schema.write_rules import WriteApi
from anabranch.spark.gateway.jvm_classes import split_map

_APPEND, _OVERWRITE, _DYNAMIC = "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"
_DYNAMIC_OPTION = "partitionOverwriteMode"
PARTITIONING_OPTION, CLUSTERING_OPTION = "__partition_columns", "__clustering_columns"
"""Options in which Spark passes the columns of `partitionBy` and `clusterBy` to sources: lists of names, as JSON."""


class WriteHandler(StagingHandler):
    """Writes rows, to tables and to staged tables."""

    def _write_rows(self, session: Any, plan: Any) -> Any:
        """A `V2WriteCommand`. Each execution computes its rows again, from the newest versions."""
        relation = plan.table()
        facts = facts_of(
            self._driver, self._driver.session(session), self._driver.anabranch.DeltaRelations.tableOf(relation)
        )
        write = _facts_of(self._driver, plan)
        if STAGED_OPTION in facts.options:
            self._write_staged_rows(facts.options[STAGED_OPTION], session, plan.query(), write.options)
            return self._driver.seq([])
        check_whole_table(facts, statement="INSERT")
        chosen = dataclasses.replace(self._chosen(session, plan, facts, write), resolved_version=write.resolved_version)
        if not write.by_name and chosen.target_alias is None:
            # Spark has matched the columns by their positions at the analysis, which must not have changed.
            names = bound(facts, relation.output(), version=write.resolved_version)
            chosen = dataclasses.replace(chosen, target_alias=names)
        if self._driver.anabranch.UserCache.readsTable(
            self._driver.anabranch.UserCache.used(session, plan.query()), facts.table.path
        ):
            chosen = dataclasses.replace(chosen, reads_target=True)

        def rows() -> DataFrame:
            return StatementExecution(self._driver, session).frame(plan.query())

        write_frame(facts.table, rows, chosen, write.api)
        return self._driver.seq([])

    def _chosen(self, session: Any, plan: Any, facts: TableFacts, write: _WriteFacts) -> WriteOptions:
        """The options of the write, with the rows that the statement replaces."""
        delta_session = self._driver.session(session)
        kind, values = write.kind, write.options
        mode = "append" if kind == _APPEND else "overwrite"
        _check_options(write)
        options = WriteOptions.parse(values, mode=mode, partition_by=(), cluster_by=(), settings=delta_session)
        if kind == _APPEND:
            return options
        lower = {key.lower(): value for key, value in values.items()}
        if kind == _DYNAMIC:
            return dataclasses.replace(options, dynamic_partition_overwrite=options.replace_where is None)
        read = self._driver.anabranch.ResolveInserts.replaceOn(plan)
        if read is not None:
            options = dataclasses.replace(options, replace_on_read=self._match(read))
        by_option = lower.get(_DYNAMIC_OPTION.lower(), "static").lower() == "dynamic"
        options = dataclasses.replace(
            options, dynamic_partition_overwrite=by_option and options.dynamic_partition_overwrite
        )
        condition = StatementExecution(self._driver, session).condition(plan.table(), plan.deleteExpr())
        if condition is None:
            return options
        return dataclasses.replace(
            options,
            replace_where=condition,
            target_alias=bound(facts, plan.table().output(), version=write.resolved_version),
            dynamic_partition_overwrite=False,
        )

    def _match(self, condition: Any) -> MatchCondition:
        def exists(rows: DataFrame, alias: str | None) -> Column:
            plan = rows._jdf.queryExecution().analyzed()
            return self._driver.column(self._driver.anabranch.PlanFunctions.exists(plan, alias, condition))

        return MatchCondition(column=self._driver.column(condition), exists=exists)

    def column_default(self, session: Any, table: Any, column: str) -> Any:
        """The expression for the keyword DEFAULT, if other rows of the INSERT have a value for that column.

        Raises `UnsupportedOperationError` for a column whose values the table generates, `UntrustedExpressionError`.
        """
        facts = facts_of(self._driver, self._driver.session(session), table)
        value = default_keyword_value(facts.table, (column,))
        resolved: Any = facts.table.session.spark.range(1).select(value.alias(column))
        return resolved._jdf.queryExecution().analyzed().projectList().apply(0).child()

    def save(self, session: Any, mode: str, options: Any, rows: Any) -> None:
        """`df.write.format("delta").save()`."""
        delta_session = self._driver.session(session)
        values = self._driver.java_map(options)
        plan = rows.logicalPlan()
        partitioned, clustered = (
            _names(values.pop(option, None)) for option in (PARTITIONING_OPTION, CLUSTERING_OPTION)
        )
        chosen = WriteOptions.parse(
            values, mode=mode, partition_by=partitioned, cluster_by=clustered, settings=delta_session
        )
        if chosen.path is None:
            problem = "a Delta table is written to exactly one path; pass one to save(), or use saveAsTable"
            raise InvalidOptionError(option="path", value="None", problem=problem)

        def new_rows() -> DataFrame:
            return StatementExecution(self._driver, session).frame(plan)

        save(delta_session, new_rows, chosen.path, chosen)

    write = Command(run=_write_rows)
    create_with_rows = Command(run=StagingHandler._create_with_rows)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _WriteFacts:
    """The fields of a `V2WriteCommand` of the JVM."""

    kind: str
    """The name of the plan's node."""
    by_name: bool
    """Whether columns are matched by name, not by position."""
    in_sql: bool
    resolved_version: int | None
    """The version that was looked up for just this write, whose query does not read the table; else None."""
    options: dict[str, str]
    """The write's own options override those of the table's name. Schema evolution becomes an option, too."""

    @property
    def api(self) -> WriteApi:
        """The API of the write, which decides how the columns of the rows match those of the table."""
        if self.by_name:
            return WriteApi.SQL_BY_NAME if self.in_sql else WriteApi.WRITE_TO
        return WriteApi.SQL_BY_POSITION if self.in_sql else WriteApi.INSERT_INTO


def _facts_of(driver: Driver, plan: Any) -> _WriteFacts:
    """The fields of a `V2WriteCommand`, read from the JVM in one call."""
    facts = str(driver.anabranch.PlanFunctions.writeFacts(plan))
    kind, by_name, in_sql, evolves, version, options = facts.split("\0", 5)
    evolution = {"mergeSchema": "true"} if evolves == "1" else {}
    return _WriteFacts(
        kind=kind,
        by_name=by_name == "1",
        in_sql=in_sql == "1",
        resolved_version=int(version) if version else None,
        options={**split_map(options), **evolution},
    )


def _check_options(write: _WriteFacts) -> None:
    """Raises an error for options that select the rows to replace, if the call itself selects them."""
    if write.api is not WriteApi.WRITE_TO:
        return
    kind, lower = write.kind, {key.lower(): value for key, value in write.options.items()}
    if "replacewhere" in lower and kind != _APPEND:
        problem = "with writeTo, pass the condition to overwrite(…)"
        raise InvalidOptionError(option="replaceWhere", value=lower["replacewhere"], problem=problem)
    for option in (ON, USING):
        if option.lower() in lower and kind == _OVERWRITE:
            raise FilterOverwriteError(option=option, other="overwrite(condition)")
        if option.lower() in lower and kind == _DYNAMIC:
            raise PartitionOverwriteError(option=option, other="overwritePartitions()")


def _names(encoded: str | None) -> tuple[str, ...]:
    return () if encoded is None else tuple(json.loads(encoded))
