"""GENERATE writes symlink manifests, by which engines without Delta read a table."""

from __future__ import annotations

from anabranch.commands.table_access import TableRef, check_may_be_part
from anabranch.errors.other_formats import (
    UnknownGenerateModeError,
)
from anabranch.transactions.commit.after_commit import check_listable, write_manifests

SYMLINK_MANIFEST = "symlink_format_manifest"


def check_mode(mode: str) -> None:
    """Raises `UnknownGenerateModeError`."""
    if mode.lower() != SYMLINK_MANIFEST:
        raise UnknownGenerateModeError(mode=mode, known=(SYMLINK_MANIFEST,))


def generate(table: TableRef, mode: str) -> None:
    """Write the manifests of the newest version, and remove those of partitions that no longer exist.

    Raises `UnknownGenerateModeError`, `ManifestsHideVectorsError` and `ManifestsNeedPlainColumnsError`.
    """
    check_mode(mode)
    check_may_be_part(table, "GENERATE")
    snapshot = table.latest()
    check_listable(snapshot, table=table.label)
    write_manifests(table.delta_log.store, snapshot)
