"""GENERATE: files beside a table for engines that do not know Delta."""

from __future__ import annotations

from anabranch.commands.table_access import TableHandle
from anabranch.errors.generate import UnknownGenerateModeError
from anabranch.transaction.symlink_manifests import check_listable, write_manifests

SYMLINK_MANIFEST = "symlink_format_manifest"


def check_mode(mode: str) -> None:
    """Raises `UnknownGenerateModeError`."""
    if mode.lower() != SYMLINK_MANIFEST:
        raise UnknownGenerateModeError(mode=mode, known=(SYMLINK_MANIFEST,))


def generate(handle: TableHandle, mode: str) -> None:
    """Write manifests of the newest version, and remove those of partitions that it does not have any more.

    Raises `UnknownGenerateModeError`, `ManifestsHideVectorsError` and `ManifestsNeedPlainColumnsError`.
    """
    check_mode(mode)
    snapshot = handle.latest()
    check_listable(snapshot, table=handle.label)
    write_manifests(handle.table.store, snapshot)
