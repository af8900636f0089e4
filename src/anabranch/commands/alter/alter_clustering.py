"""ALTER TABLE … CLUSTER BY. See "Writer Requirements for Clustered Table"."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.clustering import clustering_columns, clustering_domain
from anabranch.commands.table_access import TableRef
from anabranch.protocol.features import supported
from anabranch.protocol.protocol_evolution import upgrade_protocol
from anabranch.schema.paths import FieldPath, quoted
from anabranch.transactions.commit.commit_context import CommittedVersion


def alter_cluster_by(table: TableRef, columns: Sequence[FieldPath]) -> CommittedVersion | None:
    """Have OPTIMIZE order rows by these columns, or by none. Existing files stay as they are.

    Raises `InvalidClusteringError`, `ColumnNotFoundError`, and `MetadataChangedException` where another
    commit changes the clustering at the same time.
    """
    alteration = Alteration(table)
    snapshot = alteration.snapshot
    if not columns and not supported(snapshot.protocol, "clustering"):
        return None
    domain = clustering_domain(
        columns, snapshot.schema, snapshot.properties, snapshot.partition_columns, label=table.label
    )
    defined = dataclasses.replace(alteration.define(), protocol=upgrade_protocol(snapshot.protocol, ["clustering"]))
    parameters = {
        "oldClusteringColumns": ",".join(quoted(path) for path in clustering_columns(snapshot)),
        "newClusteringColumns": ",".join(quoted(path) for path in columns),
    }
    return alteration.commit("CLUSTER BY", parameters, defined, [domain])
