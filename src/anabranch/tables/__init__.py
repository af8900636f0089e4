"""Delta's Python API: replace `from delta.tables import DeltaTable` by `from anabranch.tables import DeltaTable`."""

import anabranch.pyspark_release  # noqa: F401 - first: the other imports fail where PySpark is missing
from anabranch.tables.column_arguments import IdentityGenerator
from anabranch.tables.delta_table import DeltaTable, DeltaTableBuilder
from anabranch.tables.merge_builder import DeltaMergeBuilder
from anabranch.tables.optimize_builder import DeltaOptimizeBuilder

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]
