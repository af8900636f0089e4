"""What the session's catalog knows of a table: its name, its place, its columns."""

from __future__ import annotations

import logging

from anabranch.booleans import parse_boolean
from anabranch.commands.table_access import TableRef
from anabranch.log.commit_files import read_commit_info
from anabranch.log.listing import list_log
from anabranch.protocol.actions import Metadata
from anabranch.schema.merging import visible_schema
from anabranch.schema.serialization import parse_schema
from anabranch.spark.session.catalog import CatalogEntry
from anabranch.transaction.commit.commit_context import CommittedVersion

LOGGER = logging.getLogger("anabranch.commit")
REGISTRATION_MS_MAX = 5_000
"""Between the first commit of a named table and its entry in the catalog lies one call of the metastore."""
_LOOKS_APART_MS = 50


def is_registered(table: TableRef) -> bool:
    """Whether the catalog knows the table's name; where another program has just made the table, within a moment.

    That program tells the catalog right behind its commit. Without waiting for it, a name that two programs make at one
    time would look like one that an old folder is in the way of.
    """
    assert table.entry is not None
    clock, catalog = table.session.clock, table.session.catalog
    name = table.entry.full_name
    if catalog.find(name) is not None:
        return True
    ends_ms = clock.elapsed_ms() + _left_to_register_ms(table)
    while clock.elapsed_ms() < ends_ms:
        clock.sleep_ms(_LOOKS_APART_MS)
        if catalog.find(name) is not None:
            return True
    return False


def _left_to_register_ms(table: TableRef) -> int:
    """How long whoever made the table by a name may still take to tell the catalog; 0 where nobody is about to."""
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
    """Make the catalog know the name, with the columns that `committed` has brought, else those of the newest version.

    A commit that landed says its columns itself: a storage that fails behind it makes no failure of it.
    """
    metadata = _metadata_of(committed) or table.latest().metadata
    schema = visible_schema(parse_schema(metadata.schema_string, table.label))
    partition_columns = tuple(metadata.partition_columns)
    table.session.catalog.register(entry, schema=schema, partition_columns=partition_columns)


def register_if_changed(table: TableRef, committed: CommittedVersion | None) -> None:
    """Make the catalog know the columns that a commit has brought, if it did. A failure of that is logged.

    The commit has landed, and its columns are read from the log, whatever the catalog says.
    """
    if table.entry is None or committed is None or _metadata_of(committed) is None:
        return
    try:
        register(table, table.entry, committed)
    except Exception:
        LOGGER.warning(
            "version %d of %s landed, but the catalog did not take its columns",
            committed.version,
            table.label,
            exc_info=True,
        )


def _metadata_of(committed: CommittedVersion | None) -> Metadata | None:
    actions = () if committed is None else committed.actions
    return next((action for action in actions if isinstance(action, Metadata)), None)
