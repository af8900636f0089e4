"""Writes of rows: commands that Spark has resolved, and `save`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame

from anabranch.callbacks.answer_row_changes import Versions
from anabranch.callbacks.answer_staging import STAGED_OPTION, Staging
from anabranch.callbacks.answer_tables import TableFacts, bound, check_whole_table, facts_of
from anabranch.callbacks.driver import Driver
from anabranch.callbacks.resolved_commands import Command
from anabranch.commands.catalog_registration import register_if_changed
from anabranch.commands.dml.assignments import given_default
from anabranch.commands.write.write_options import ON, USING, MatchCondition, WriteOptions
from anabranch.commands.write.write_rows import save, write_frame
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.dml import FilterOverwriteError, PartitionOverwriteError
from anabranch.schema.enforcement import WriteApi
from anabranch.spark.gateway.callback_endpoint import Answer

_APPEND, _OVERWRITE, _DYNAMIC = "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic"
_DYNAMIC_OPTION = "partitionOverwriteMode"
PARTITIONING_OPTION, CLUSTERING_OPTION = "__partition_columns", "__clustering_columns"
"""Options by which Spark tells sources of `partitionBy` and `clusterBy`: lists of names, as JSON."""


class Writes:
    """Writes rows."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._staging = Staging(driver)

    def answers(self) -> dict[str, Answer]:
        return {"save": self.save, "default": self.default, **self._staging.answers()}

    def commands(self) -> dict[str, Command]:
        writes = {name: Command(run=self.run) for name in (_APPEND, _OVERWRITE, _DYNAMIC)}
        return {**writes, "CreateTable": Command(run=self._staging.create_with_rows)}

    def run(self, session: Any, plan: Any) -> Any:
        """A `V2WriteCommand`. Its rows are made anew, from the newest versions, each time that it is executed."""
        relation = plan.table()
        facts = facts_of(self._driver, self._driver.session(session), self._driver.delta.Leaves.tableOf(relation))
        options = _options_of(self._driver, plan)
        if STAGED_OPTION in facts.options:
            self._staging.take(facts.options[STAGED_OPTION], session, plan.query(), options)
            return self._driver.seq([])
        check_whole_table(facts, statement="INSERT")
        chosen = self._chosen(session, plan, facts, options)
        if not plan.isByName() and chosen.target_alias is None:
            # The places of its columns are those that Spark has resolved.
            chosen = dataclasses.replace(chosen, target_alias=bound(facts, relation.output()))
        if self._driver.delta.Cached.readsTable(
            self._driver.delta.Cached.used(session, plan.query()), facts.table.path
        ):
            chosen = dataclasses.replace(chosen, reads_target=True)

        def rows() -> DataFrame:
            return Versions(self._driver, session).frame(plan.query())

        register_if_changed(facts.table, write_frame(facts.table, rows, chosen, _api(plan)))
        return self._driver.seq([])

    def _chosen(self, session: Any, plan: Any, facts: TableFacts, given: Mapping[str, str]) -> WriteOptions:
        """What the statement and the options say of the rows that go."""
        own = self._driver.session(session)
        kind = str(plan.nodeName())
        mode = "append" if kind == _APPEND else "overwrite"
        _check_options(plan, kind, given)
        options = WriteOptions.parse(given, mode=mode, partition_by=(), cluster_by=(), settings=own)
        if kind == _APPEND:
            return options
        lower = {key.lower(): value for key, value in given.items()}
        if kind == _DYNAMIC:
            return dataclasses.replace(options, dynamic_partition_overwrite=options.replace_where is None)
        read = self._driver.delta.Inserts.replaceOn(plan)
        if read is not None:
            options = dataclasses.replace(options, replace_on_read=self._match(read))
        by_option = lower.get(_DYNAMIC_OPTION.lower(), "static").lower() == "dynamic"
        options = dataclasses.replace(
            options, dynamic_partition_overwrite=by_option and options.dynamic_partition_overwrite
        )
        condition = Versions(self._driver, session).condition(plan.table(), plan.deleteExpr())
        if condition is None:
            return options
        return dataclasses.replace(
            options,
            replace_where=condition,
            target_alias=bound(facts, plan.table().output()),
            dynamic_partition_overwrite=False,
        )

    def _match(self, condition: Any) -> MatchCondition:
        def exists(rows: DataFrame, alias: str | None) -> Column:
            plan = rows._jdf.queryExecution().analyzed()
            return self._driver.column(self._driver.delta.Plans.exists(plan, alias, condition))

        return MatchCondition(column=self._driver.column(condition), exists=exists)

    def default(self, session: Any, table: Any, column: str) -> Any:
        """The expression that the keyword DEFAULT stands for, where other rows of the INSERT give that column a value.

        Raises `UnsupportedOperationError` for a column whose values the table makes, `UntrustedExpressionError`.
        """
        facts = facts_of(self._driver, self._driver.session(session), table)
        value = given_default(facts.table, (column,))
        resolved: Any = facts.table.session.spark.range(1).select(value.alias(column))
        return resolved._jdf.queryExecution().analyzed().projectList().apply(0).child()

    def save(self, session: Any, mode: str, options: Any, rows: Any) -> None:
        """`df.write.format("delta").save()`."""
        own = self._driver.session(session)
        given = self._driver.java_map(options)
        plan = rows.logicalPlan()
        partitioned, clustered = (
            _names(given.pop(option, None)) for option in (PARTITIONING_OPTION, CLUSTERING_OPTION)
        )
        chosen = WriteOptions.parse(given, mode=mode, partition_by=partitioned, cluster_by=clustered, settings=own)
        if chosen.path is None:
            problem = "a Delta table is written to exactly one path; give one to save(), or use saveAsTable"
            raise InvalidOptionError(option="path", value="None", problem=problem)

        def made() -> DataFrame:
            return Versions(self._driver, session).frame(plan)

        save(own, made, chosen.path, chosen)


def _api(plan: Any) -> WriteApi:
    """How the columns of the rows find those of the table."""
    in_sql = bool(plan.origin().sqlText().isDefined())
    if plan.isByName():
        return WriteApi.SQL_BY_NAME if in_sql else WriteApi.WRITE_TO
    return WriteApi.SQL_BY_POSITION if in_sql else WriteApi.INSERT_INTO


def _options_of(driver: Driver, plan: Any) -> dict[str, str]:
    """Those of the table's name go behind those of the write. Schema evolution is asked for as an option, too."""
    found = driver.java_map(plan.table().options().asCaseSensitiveMap())
    found.update(driver.string_map(plan.writeOptions()))
    if driver.delta.Plans.evolves(plan):
        found["mergeSchema"] = "true"
    return found


def _check_options(plan: Any, kind: str, given: Mapping[str, str]) -> None:
    """Where the call says which rows go, options that say so, too, are refused."""
    lower = {key.lower(): value for key, value in given.items()}
    if _api(plan) is not WriteApi.WRITE_TO:
        return
    if "replacewhere" in lower and kind != _APPEND:
        problem = "with writeTo, the condition is the argument of overwrite(…)"
        raise InvalidOptionError(option="replaceWhere", value=lower["replacewhere"], problem=problem)
    for option in (ON, USING):
        if option.lower() in lower and kind == _OVERWRITE:
            raise FilterOverwriteError(option=option, other="overwrite(condition)")
        if option.lower() in lower and kind == _DYNAMIC:
            raise PartitionOverwriteError(option=option, other="overwritePartitions()")


def _names(encoded: str | None) -> tuple[str, ...]:
    return () if encoded is None else tuple(json.loads(encoded))
