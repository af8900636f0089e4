"""`DeltaOptimizeBuilder`, with the names, arguments and results of Delta's Python API."""

from __future__ import annotations

from pyspark.sql import DataFrame

from anabranch.tables.shown_frames import shown_as_table
from anabranch.tables.table_operations import TableOperations


class DeltaOptimizeBuilder:
    """The options of an OPTIMIZE: made by `DeltaTable.optimize()`, run by one of the `execute` methods."""

    def __init__(self, table: TableOperations, *, predicates: tuple[str, ...] = ()) -> None:
        self._table = table
        self._predicates = predicates

    def __repr__(self) -> str:
        where = f" WHERE {' AND '.join(self._predicates)}" if self._predicates else ""
        methods = "executeCompaction() or executeZOrderBy()"
        return f"DeltaOptimizeBuilder(OPTIMIZE {self._table.label}{where}; run by {methods})"

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Rewrite only the partitions for which the condition is true. It can use partition columns alone."""
        if type(partitionFilter) is not str:
            raise TypeError(f"Partition filter must be str. Found {partitionFilter} with type {type(partitionFilter)}")
        return DeltaOptimizeBuilder(self._table, predicates=(*self._predicates, partitionFilter))

    def executeCompaction(self) -> DataFrame:
        """Compact small files. Returns one row: `path` and `metrics`.

        Raises `NonPartitionColumnError` and the other errors of `errors.maintenance`; never a conflict.
        """
        return shown_as_table(self._table.optimize(self._predicates, []))

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Rewrite all rows, so that similar values of these columns are in the same files.

        Returns one row: `path` and `metrics`.

        Raises the errors of `errors.maintenance` for columns that cannot be ordered by; never a conflict.
        """
        columns = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        names: list[str] = []
        for name in columns:
            if type(name) is not str:
                raise TypeError(f"Z-order column must be str. Found {name} with type {type(name)}")
            names.append(name)
        return shown_as_table(self._table.optimize(self._predicates, names))
