"""OPTIMIZE and REORG TABLE, run; VACUUM, RESTORE, CONVERT TO DELTA and GENERATE, refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pyspark.sql import DataFrame

from anabranch.commands.optimize import optimize_frame
from anabranch.commands.purge import purge_frame
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.schema.paths import quoted
from anabranch.sql.call import Call
from anabranch.sql.grammar.cursor import Fragment
from anabranch.sql.grammar.maintenance import Convert, Generate, Optimize, Reorganize, Restore, Vacuum


def _optimize(call: Call, statement: Optimize) -> DataFrame:
    handle = call.table(statement.table)
    if statement.full:
        raise UnsupportedOperationError(operation=f"OPTIMIZE {handle.label} FULL", instead="Leave FULL out.")
    columns = [quoted(path) for path in statement.z_order]
    return optimize_frame(handle, predicate=_condition(call, statement.condition), zorder_by=columns)


def _reorganize(call: Call, statement: Reorganize) -> DataFrame:
    handle = call.table(statement.table)
    if statement.iceberg_version is not None:
        raise UnsupportedOperationError(operation=f"REORG TABLE {handle.label} APPLY (UPGRADE UNIFORM(…))")
    return purge_frame(handle, predicate=_condition(call, statement.condition))


def _condition(call: Call, condition: Fragment | None) -> str | None:
    return None if condition is None else call.expression(condition)


def _refuse(name: str, instead: str = "") -> Callable[[Call, Any], DataFrame]:
    def refuse(_: Call, __: Any) -> NoReturn:
        raise UnsupportedOperationError(operation=f"The SQL statement {name}", instead=instead)

    return refuse


MAINTENANCE: Mapping[type, Callable[[Call, Any], DataFrame]] = {
    Optimize: _optimize,
    Reorganize: _reorganize,
    Vacuum: _refuse("VACUUM"),
    Restore: _refuse("RESTORE", "Read with versionAsOf and overwrite."),
    Convert: _refuse("CONVERT TO DELTA", "Use CREATE TABLE … AS SELECT."),
    Generate: _refuse("GENERATE"),
}
