"""The entry of a table in the session's catalog: its name, its location, its columns."""

from __future__ import annotations

import logging

from anabranch.booleans import parse_boolean
from anabranch.commands.table_access import TableRef
from anabranch.log.commit_files import read_commit_info
from anabranch.log.log_segment import list_log
from anabranch.protocol.actions import Metadata
from anabranch.schema.schema_evolution import visible_schema
from anabranch.schema.serialization import parse_schema
from anabranch.spark.session.catalog import CatalogEntry
from anabranch.transactions.commit.commit_context import CommittedVersion

LOGGER = logging.getLogger("anabranch.commit")
REGISTRATION_MS_MAX = 5_000
"""How long another program may take from the first commit of a named table to its entry in the catalog, which is one
call of the metastore."""
_POLL_INTERVAL_MS = 50


def is_registered(table: TableRef) -> bool:
    """Whether the catalog has an entry for the table; where another program is creating the table, waits for the entry.

    That program registers the table right after its first commit. Without the wait, a name that two programs create at
    the same time would look like a name whose folder holds an old table.
    """
    assert table.entry is not None
    clock, catalog = table.session.clock, table.session.catalog
    name = table.entry.full_name
    if catalog.find(name) is not None:
        return True
    ends_ms = clock.elapsed_ms() + _left_to_register_ms(table)
    while clock.elapsed_ms() < ends_ms:
        clock.sleep_ms(_POLL_INTERVAL_MS)
        if catalog.find(name) is not None:
            return True
    return False


def _left_to_register_ms(table: TableRef) -> int:
    """How long the program that created the table by a name may still take to register it; 0 where none is about to."""
    first = list_log(table.delta_log.store, first=0, upto=0).commits
    info = read_commit_info(table.delta_log.store, first[0]) if first else None
    if info is None or info.timestamp is None:
        return 0
    managed = (info.operation_parameters or {}).get("isManaged")
    if parse_boolean(str(managed)) is not True:
        return 0
    age_ms = table.session.clock.now_ms() - info.timestamp
    return min(REGISTRATION_MS_MAX, REGISTRATION_MS_MAX - age_ms)


def register(table: TableRef, entry: CatalogEntry, committed: CommittedVersion | None = None) -> None:
    """Register the table with the columns of the commit if it changes them, otherwise with those of the newest version.

    The columns of a commit are not read from storage, which might fail although the commit is in the log.
    """
    metadata = _metadata_of(committed) or table.latest().metadata
    schema = visible_schema(parse_schema(metadata.schema_string, table.label))
    partition_columns = tuple(metadata.partition_columns)
    table.session.catalog.register(entry, schema=schema, partition_columns=partition_columns)


def register_if_changed(table: TableRef, entry: CatalogEntry, committed: CommittedVersion | None) -> None:
    """Register the columns of the commit under the table's entry, if it changes them. A failure is logged.

    The commit is in the log, from which columns are read even where the entry in the catalog is outdated.
    """
    if committed is None or committed.is_part or _metadata_of(committed) is None:
        return
    try:
        register(table, entry, committed)
    except Exception:
        LOGGER.warning(
            "version %d of %s is committed, but its columns could not be registered in the catalog",
            committed.version,
            table.label,
            exc_info=True,
        )


def _metadata_of(committed: CommittedVersion | None) -> Metadata | None:
    actions = () if committed is None else committed.actions
    return next((action for action in actions if isinstance(action, Metadata)), None)
