"""Execution of OPTIMIZE, REORG TABLE, VACUUM, RESTORE, CONVERT TO DELTA and GENERATE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.alter.upgrade_uniform import upgrade_uniform_frame
from anabranch.commands.convert.convert_table import convert_to_delta
from anabranch.commands.optimize.optimize_command import optimize_frame
from anabranch.commands.optimize.purge import purge_frame
from anabranch.commands.other_formats.symlink_manifests import check_mode, generate
from anabranch.commands.read.read_table import parse_version
from anabranch.commands.restore.restore_table import restore_frame
from anabranch.commands.table_access import TimeTravel
from anabranch.commands.vacuum.vacuum_command import VacuumRequest, vacuum_frame
from anabranch.errors.arguments import InvalidArgumentError, UnsupportedOperationError
from anabranch.errors.maintenance import VacuumModeError
from anabranch.schema.paths import quoted
from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.grammar.maintenance_grammar import Convert, Generate, Optimize, Reorganize, Restore, Vacuum
from anabranch.sql.literals import columns_of
from anabranch.sql.statement_context import StatementContext


def _optimize(context: StatementContext, statement: Optimize) -> DataFrame:
    table = context.table(statement.table)
    columns = [quoted(path) for path in statement.z_order]
    condition = _condition(context, statement.condition)
    return optimize_frame(table, predicate=condition, zorder_by=columns, full=statement.full)


def _reorganize(context: StatementContext, statement: Reorganize) -> DataFrame:
    table = context.table(statement.table)
    if statement.iceberg_version is not None:
        if statement.condition is not None:
            raise UnsupportedOperationError(
                operation=f"REORG TABLE {table.label} WHERE … APPLY (UPGRADE UNIFORM(…))",
                instead="A table is compatible as a whole: leave WHERE out.",
            )
        return upgrade_uniform_frame(table, version=statement.iceberg_version)
    return purge_frame(table, predicate=_condition(context, statement.condition))


def _vacuum(context: StatementContext, statement: Vacuum) -> DataFrame:
    table = context.table(statement.table)
    if statement.lite and statement.full:
        raise VacuumModeError(table=table.label, clauses="LITE and FULL")
    request = VacuumRequest(
        lite=statement.lite if statement.lite or statement.full else None,
        retention_hours=None if statement.retain_hours is None else _hours(statement.retain_hours),
        inventory=None if statement.inventory is None else context.relation(statement.inventory),
        dry_run=statement.dry_run,
    )
    return vacuum_frame(table, request)


def _hours(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(argument="RETAIN", value=text, problem="it must be a number of hours") from None


def _restore(context: StatementContext, statement: Restore) -> DataFrame:
    table = context.table(statement.table)
    if statement.timestamp is None:
        return restore_frame(table, TimeTravel(version=parse_version(str(statement.version))))
    return restore_frame(table, TimeTravel(timestamp=context.timestamp(statement.timestamp)))


def _convert(context: StatementContext, statement: Convert) -> DataFrame:
    written = statement.partition_schema
    convert_to_delta(
        context.session,
        context.name_parts(statement.table),
        partition_schema=None if written is None else columns_of(written),
        collects_statistics=statement.collects_statistics,
    )
    return context.nothing()


def _generate(context: StatementContext, statement: Generate) -> DataFrame:
    check_mode(statement.mode)
    generate(context.table(statement.table), statement.mode)
    return context.nothing()


def _condition(context: StatementContext, condition: Fragment | None) -> str | None:
    return None if condition is None else context.expression(condition)


MAINTENANCE: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    Optimize: _optimize,
    Reorganize: _reorganize,
    Vacuum: _vacuum,
    Restore: _restore,
    Convert: _convert,
    Generate: _generate,
}
