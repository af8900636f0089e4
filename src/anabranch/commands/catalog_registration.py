"""What the session's catalog knows of a table: its name, its place, its columns."""

from __future__ import annotations

import logging

from anabranch.commands.table_access import TableRef
from anabranch.protocol.actions import Metadata
from anabranch.schema.merging import visible_schema
from anabranch.schema.serialization import parse_schema
from anabranch.spark.session.catalog import CatalogEntry
from anabranch.transaction.commit.commit_context import CommittedVersion

LOGGER = logging.getLogger("anabranch.commit")


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
