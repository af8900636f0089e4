"""ALTER TABLE … ALTER COLUMN … SYNC IDENTITY."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.alteration import Alteration
from anabranch.commands.changed_table import column_json
from anabranch.commands.table_access import TableHandle
from anabranch.errors.alterations import UnsupportedColumnChangeError
from anabranch.schema.column_changes import spelled
from anabranch.schema.identity import identity_of, with_high_water_mark
from anabranch.schema.paths import FieldPath, quoted
from anabranch.spark.table_identifiers import quote
from anabranch.transaction.committed_version import CommittedVersion


def alter_sync_identity(handle: TableHandle, path: FieldPath) -> CommittedVersion | None:
    """Let an identity column go on behind the values that it has, whoever gave them. Its mark never goes back.

    Raises `UnsupportedColumnChangeError` for other columns.
    """
    alteration = Alteration(handle)
    schema = alteration.snapshot.schema
    (name, *below) = spelled(schema, path, table=handle.label)
    identity = None if below else identity_of(schema[name], handle.label)
    if identity is None:
        reason = "it is no identity column"
        raise UnsupportedColumnChangeError(table=handle.label, column=quoted(path), reason=reason)
    column = F.col(quote(name))
    found = alteration.rows().agg(F.max(column) if identity.step > 0 else F.min(column)).first()
    last = found[0] if found is not None else None
    if last is None:
        return None
    changed = with_high_water_mark(schema, {name: identity.moved(int(last))})
    parameters = {"column": column_json((name,), changed[name])}
    return alteration.commit("CHANGE COLUMN", parameters, alteration.define(schema=changed))
