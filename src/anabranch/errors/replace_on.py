"""Errors about the write options replaceOn and replaceUsing."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaAnalysisError
from anabranch.errors.schema import ColumnNotFoundError


@dataclasses.dataclass(eq=False, kw_only=True)
class IncompatibleOptionsError(DeltaAnalysisError, ValueError):
    """Two options of a write contradict each other."""

    condition: ClassVar[str] = "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS"
    sqlstate: ClassVar[str] = "42613"
    option: str
    other: str
    """An option, or the call that acts."""
    problem: str = "both say what is overwritten"

    def explain(self) -> str:
        return f"{self.option} does not go with {self.other}: {self.problem}. Leave one of them out."


@dataclasses.dataclass(eq=False, kw_only=True)
class FilterOverwriteError(IncompatibleOptionsError):
    """replaceOn or replaceUsing, and a condition on rows that are overwritten."""

    condition: ClassVar[str] = "DELTA_OVERWRITE_BY_FILTER_INCOMPATIBLE_REPLACE_ON_OR_USING"


@dataclasses.dataclass(eq=False, kw_only=True)
class PartitionOverwriteError(IncompatibleOptionsError):
    """replaceOn or replaceUsing, and partitions that are overwritten."""

    condition: ClassVar[str] = "DELTA_DYNAMIC_PARTITION_OVERWRITE_INCOMPATIBLE_REPLACE_ON_OR_USING"


@dataclasses.dataclass(eq=False, kw_only=True)
class TableReplacementError(IncompatibleOptionsError):
    """replaceOn or replaceUsing, and a call that makes a table anew."""

    condition: ClassVar[str] = "DELTA_DFV2_CREATE_REPLACE_INCOMPATIBLE_REPLACE_ON_OR_USING"
    sqlstate: ClassVar[str] = "42000"
    problem: str = "a table that is made anew has no rows to choose from"


@dataclasses.dataclass(eq=False, kw_only=True)
class AmbiguousReplaceOnError(DeltaAnalysisError, ValueError):
    """The condition of replaceOn names a column that the table and the rows written both have."""

    condition: ClassVar[str] = "DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION"
    sqlstate: ClassVar[str] = "42702"
    table: str
    predicate: str
    reason: str

    def explain(self) -> str:
        return (
            f"replaceOn = {self.predicate!r} on {self.table} does not say whose columns it means: {self.reason} Give "
            "the table a name by the option targetAlias and the rows another one by DataFrame.alias, and put these "
            "before the columns."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class UnresolvedReplaceOnError(DeltaAnalysisError, ValueError):
    """The condition of replaceOn names a column that neither the table nor the rows written have."""

    condition: ClassVar[str] = "DELTA_INSERT_REPLACE_ON_UNRESOLVED_COLUMNS_IN_CONDITION"
    sqlstate: ClassVar[str] = "42703"
    table: str
    predicate: str
    reason: str

    def explain(self) -> str:
        return (
            f"replaceOn = {self.predicate!r} on {self.table} names what is not there: {self.reason} The table is "
            "called what the option targetAlias says, and the rows what DataFrame.alias says."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class UnknownReplaceUsingColumnError(ColumnNotFoundError):
    """replaceUsing names a column that the table or the rows written lack."""

    condition: ClassVar[str] = "UNRESOLVED_INSERT_REPLACE_USING_COLUMN"
    sqlstate: ClassVar[str] = "42703"


@dataclasses.dataclass(eq=False, kw_only=True)
class MisalignedReplaceUsingError(DeltaAnalysisError, ValueError):
    """Columns of replaceUsing stand at another place in the rows than in the table, where places decide."""

    condition: ClassVar[str] = "INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS"
    sqlstate: ClassVar[str] = "42802"
    table: str
    columns: tuple[str, ...]

    def explain(self) -> str:
        return (
            f"insertInto puts the first column into the first one of {self.table}, and so on; "
            f"{', '.join(self.columns)} of replaceUsing would become another column. Select the columns in the order "
            "of the table."
        )
