"""The interface below `DeltaTable`: `local_tables` implements it by plans, `message_tables` by messages to a server.

Arguments are checked before. Errors are those that the methods of `DeltaTable` name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from anabranch.commands.create.create_table import CreationMode
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.merge.merge_statement import MergeStatement
from anabranch.commands.table_access import TimeTravel


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """A table as a notebook shows it."""

    facts: Sequence[tuple[str, str]]
    """Names and values, such as the version and the number of files."""
    schema: StructType


class TableOperations(Protocol):
    """One existing table."""

    @property
    def label(self) -> str:
        """The name of the table in messages."""

    def summary(self) -> TableSummary:
        """What a notebook shows of the newest version. Nothing is read but the log."""

    def rows(self, alias: str | None) -> DataFrame:
        """The newest rows, with the alias. Columns of the frame can be used in conditions and values."""

    def history(self, limit: int | None) -> DataFrame: ...

    def detail(self) -> DataFrame: ...

    def delete(self, condition: str | Column | None, *, alias: str | None, conflict_retries: int | None) -> None: ...

    def update(
        self,
        values: Mapping[str, str | Column],
        condition: str | Column | None,
        *,
        alias: str | None,
        conflict_retries: int | None,
    ) -> None: ...

    def merge(self, statement: MergeStatement, *, alias: str | None, conflict_retries: int | None) -> DataFrame:
        """One row, as `DeltaMergeBuilder.execute` returns it."""

    def optimize(self, predicates: tuple[str, ...], zorder_by: list[str]) -> DataFrame:
        """All `predicates` must be true for a partition."""

    def vacuum(self, retention_hours: float | None) -> DataFrame: ...

    def generate(self, mode: str) -> None: ...

    def upgrade_protocol(self, reader_version: int, writer_version: int) -> None: ...

    def add_feature(self, name: str) -> None: ...

    def drop_feature(self, name: str, *, truncate_history: bool) -> None: ...

    def restore(self, travel: TimeTravel) -> DataFrame: ...

    def clone(
        self, travel: TimeTravel, target: str, *, is_shallow: bool, replace: bool, properties: Mapping[str, str]
    ) -> TableOperations:
        """The new table."""


class SessionTables(Protocol):
    """The tables of one session."""

    def at_path(self, path: str, storage: Mapping[str, str]) -> TableOperations: ...

    def named(self, name: str) -> TableOperations:
        """The table of a name, or of delta.`path`."""

    def is_table(self, path: str) -> bool: ...

    def converted(self, identifier: str, partition_schema: StructType | None) -> TableOperations: ...

    def created(
        self, name: str | None, location: str | None, definition: TableDefinition, mode: CreationMode
    ) -> TableOperations:
        """The table, which is created, replaced or left as it is, by `mode`."""
