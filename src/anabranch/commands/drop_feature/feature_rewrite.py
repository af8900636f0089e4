"""Data files are rewritten so that none of them uses a feature: without deletion vectors, without old types."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from anabranch.commands.optimize.bin_packing import pack
from anabranch.commands.optimize.footer_columns import has_other_types, read_schemas
from anabranch.commands.optimize.optimize_command import files_to_plan
from anabranch.commands.optimize.optimize_plan import Plan
from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.optimize.rewrite_bins import compact_bin
from anabranch.commands.optimize.rewrite_job import RewriteJob, run_rewrite_job
from anabranch.commands.table_access import TableRef
from anabranch.log.file_columns import FileMask
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.proposed_commit import Operation

LOGGER = logging.getLogger("anabranch.features")

ChooseFiles = Callable[[Snapshot], FileMask]


def rewrite_files(table: TableRef, choose: ChooseFiles, *, feature: str) -> None:
    """Rewrite these files by commits that change no row, as REORG does.

    Other writers never make it fail. Files that they change or add meanwhile may be left.
    """
    snapshot = table.latest()
    if not choose(snapshot).any():
        return
    settings = OptimizeSettings.of(table.session, snapshot.properties)

    def plan(newest: Snapshot) -> Plan:
        files = files_to_plan(table, newest, None)
        bins = pack(
            np.flatnonzero(choose(newest)),
            sizes=files.sizes,
            partitions=files.partitions,
            bin_bytes_max=settings.max_file_bytes,
            keep_single=True,
        )
        return Plan(files=files, bins=tuple(bins))

    operation = Operation(name="REORG", parameters={"predicate": [], "applyPurge": True})
    done = run_rewrite_job(
        table,
        RewriteJob(
            operation=operation,
            plan=plan,
            rewrite=lambda newest, made, group: compact_bin(table, newest, made, group, target=settings.max_file_bytes),
            settings=settings,
        ),
    )
    LOGGER.info("%s: %d files rewritten to drop %s", table.label, len(done.removes), feature)


def files_with_vectors(snapshot: Snapshot) -> FileMask:
    """The files that have a deletion vector, even one that hides no row."""
    vectors = snapshot.files.columns("deletion_vector")["deletion_vector"]
    return np.asarray(vectors.is_valid().to_numpy(), dtype=np.bool_)


class FilesOfOldTypes:
    """Finds files whose columns have other types than the schema. Every file is opened once."""

    def __init__(self, table: TableRef) -> None:
        self._table = table
        self._has_old_types: dict[tuple[str, str], bool] = {}

    def __call__(self, snapshot: Snapshot) -> FileMask:
        """The files of `snapshot` with other types."""
        paths = snapshot.files.columns("path")["path"].to_pylist()
        schema = snapshot.metadata.schema_string
        unknown = [path for path in dict.fromkeys(paths) if (schema, path) not in self._has_old_types]
        for path, stored in zip(unknown, read_schemas(self._table, unknown), strict=True):
            self._has_old_types[schema, path] = has_other_types(stored, snapshot.schema, snapshot.column_mapping_mode)
        return np.array([self._has_old_types[schema, path] for path in paths], dtype=np.bool_)
