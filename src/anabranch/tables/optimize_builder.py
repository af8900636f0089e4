"""`DeltaOptimizeBuilder`, with the names, arguments and results of Delta's Python API."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.commands.optimize.optimize_command import optimize_frame
from anabranch.commands.table_access import TableRef


class DeltaOptimizeBuilder:
    """What OPTIMIZE is to do: made by `DeltaTable.optimize()`, run by one of the `execute` methods."""

    def __init__(self, handle: TableRef, *, predicates: tuple[str, ...] = ()) -> None:
        self._handle = handle
        self._predicates = predicates

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only the partitions for which the condition is true; it may name partition columns alone."""
        if type(partitionFilter) is not str:
            found = f"Found {partitionFilter} with type {type(partitionFilter)}"
            raise TypeError(f"Partition filter must be str. {found}")
        return self._with((*self._predicates, partitionFilter))

    def executeCompaction(self) -> DataFrame:
        """Put small files together. One row: `path` and `metrics`.

        Raises `NonPartitionColumnError` and the other errors of `errors.optimize`; never a conflict.
        """
        return self._optimized([])

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Write all rows anew, so that rows alike in these columns lie together. One row: `path` and `metrics`.

        Raises the errors of `errors.optimize` for columns that cannot be ordered by; never a conflict.
        """
        given = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        names: list[str] = []
        for name in given:
            if type(name) is not str:
                raise TypeError(f"Z-order column must be str. Found {name} with type {type(name)}")
            names.append(name)
        return self._optimized(names)

    def _with(self, predicates: tuple[str, ...]) -> DeltaOptimizeBuilder:
        return DeltaOptimizeBuilder(self._handle, predicates=predicates)

    def _optimized(self, zorder_by: list[str]) -> DataFrame:
        return optimize_frame(self._handle, predicate=self._predicate(), zorder_by=zorder_by)

    def _predicate(self) -> str | None:
        if len(self._predicates) < 2:
            return self._predicates[0] if self._predicates else None
        return " AND ".join(f"({predicate})" for predicate in self._predicates)
