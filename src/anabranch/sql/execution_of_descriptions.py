"""DESCRIBE DETAIL and DESCRIBE HISTORY, run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.commands.describe import describe_detail, describe_history
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.sql.call import Call
from anabranch.sql.grammar.descriptions import DescribeDetail, DescribeHistory


def _detail(call: Call, statement: DescribeDetail) -> DataFrame:
    return describe_detail(call.table(statement.table))


def _history(call: Call, statement: DescribeHistory) -> DataFrame:
    if statement.limit is not None and statement.limit <= 0:
        problem = "it must be a whole number above 0"
        raise InvalidArgumentError(argument="LIMIT", value=str(statement.limit), problem=problem)
    return describe_history(call.table(statement.table), statement.limit)


DESCRIPTIONS: Mapping[type, Callable[[Call, Any], DataFrame]] = {
    DescribeDetail: _detail,
    DescribeHistory: _history,
}
