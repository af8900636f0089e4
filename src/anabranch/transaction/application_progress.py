"""Writes that an application numbers, so that doing one again does nothing. See "Transaction Identifiers"."""

from __future__ import annotations

from anabranch.snapshot.snapshot import Snapshot


def already_written(snapshot: Snapshot | None, *, app_id: str, version: int) -> bool:
    """Whether the table has this write of the application, or a later one.

    The loop asks again of every commit that lands meanwhile: see `conflict_checks.application_ids`.
    """
    found = None if snapshot is None else snapshot.set_transactions.get(app_id)
    return found is not None and found.version >= version
