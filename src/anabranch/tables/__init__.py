"""Delta's Python API: replace `from delta.tables import DeltaTable` by `from anabranch.tables import DeltaTable`."""

from anabranch.tables.builder import DeltaTableBuilder, IdentityGenerator
from anabranch.tables.delta_table import DeltaTable

__all__ = ["DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]
