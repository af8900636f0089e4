"""VACUUM: files that no version within the retention needs are deleted."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.commands.table_access import TableHandle
from anabranch.commands.vacuum_inventory import inventory_of
from anabranch.commands.vacuum_run import Vacuumed, VacuumJob, run_vacuum
from anabranch.commands.vacuum_settings import VacuumSettings
from anabranch.spark.file_listing import file_root

RESULT = StructType([StructField("path", StringType())])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VacuumRequest:
    """What a user asks for."""

    lite: bool | None = None
    """None: the session decides."""
    retention_hours: float | None = None
    """None: the table decides, by `delta.deletedFileRetentionDuration`."""
    inventory: DataFrame | None = None
    """A listing that somebody else has made."""
    dry_run: bool = False


def vacuum(handle: TableHandle, request: VacuumRequest) -> Vacuumed:
    """Delete what nobody needs. Raises as `run_vacuum`, `InventorySchemaError` and `InvalidOptionError`."""
    inventory = request.inventory
    return run_vacuum(
        VacuumJob(
            target=handle,
            settings=VacuumSettings.of(handle.session),
            clock=handle.session.clock,
            random=handle.session.random,
            lite=request.lite,
            retention_hours=request.retention_hours,
            inventory=None if inventory is None else lambda: inventory_of(handle, inventory),
            dry_run=request.dry_run,
        )
    )


def vacuum_frame(handle: TableHandle, request: VacuumRequest) -> DataFrame:
    """As `vacuum`. The result is Delta's: a dry run has a row `path` for each file, else there is one of the table."""
    done, root = vacuum(handle, request), file_root(handle.path)
    paths = [f"{root.rstrip('/')}/{path}" for path in done.plan.paths] if request.dry_run else [root]
    # Connect takes no table without rows unless it is told of which columns.
    return handle.session.spark.createDataFrame(pa.table({"path": pa.array(paths, pa.string())}), RESULT)


def nothing(handle: TableHandle) -> DataFrame:
    """No rows and no columns, as `DeltaTable.vacuum` gives back."""
    return handle.session.spark.createDataFrame([], StructType([]))
