"""What the description of a table asks: of its files, and of the parts of the description itself.

A statement that changes the description has looked at what was there when it read. Whatever landed since is judged by
the same rules for all such statements, so that none of them has to remember what it looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from anabranch.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from anabranch.protocol.features import supported
from anabranch.protocol.iceberg_compat import COMPAT_TAG, compat_versions
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, logical_path
from anabranch.schema.serialization import parse_schema

CLUSTERING_DOMAIN = "delta.clustering"


def unfit_file(add: AddFile, metadata: Metadata, protocol: Protocol) -> str | None:
    """Why a file may not be in a table of this description, in words; None where it may.

    What the log does not tell of a file, as how Iceberg finds its columns, it is not taken to have.
    """
    properties = TableProperties(metadata.configuration)
    has_vector = add.deletion_vector is not None
    if has_vector and not supported(protocol, "deletionVectors"):
        return f"{add.path} hides rows by a deletion vector, which the table is not to support"
    if has_vector and properties.symlink_manifests_enabled:
        return f"{add.path} hides rows by a deletion vector, of which symlink manifests know nothing"
    if properties.row_tracking_enabled and add.base_row_id is None:
        return f"{add.path} has no row ids, and all rows are to have one"
    for version in compat_versions(properties)[:1]:
        if has_vector or (add.tags or {}).get(COMPAT_TAG) != str(version):
            return f"{add.path} was not written as version {version} of Iceberg compatibility asks"
    return None


def faults_of_description(metadata: Metadata, domains: Mapping[str, DomainMetadata], *, table: str) -> Iterator[str]:
    """What in a description contradicts itself. See "Clustered Table"."""
    columns = _clustering(domains.get(CLUSTERING_DOMAIN))
    if not columns:
        return
    if metadata.partition_columns:
        yield "the table would be both partitioned and clustered"
    schema = parse_schema(metadata.schema_string, table)
    mode = ColumnMappingMode.parse(TableProperties(metadata.configuration).column_mapping_mode)
    for path in columns:
        if logical_path(schema, path, mode) is None:
            yield f"the table would be clustered by {'.'.join(path)}, which is no column of its schema"


def _clustering(domain: DomainMetadata | None) -> list[tuple[str, ...]]:
    """Physical paths; none where the domain is not to be understood, which readers take for no clustering."""
    if domain is None or domain.removed:
        return []
    try:
        told = msgspec.json.decode(domain.configuration)
        return [tuple(map(str, path)) for path in told.get("clusteringColumns", [])]
    except (msgspec.MsgspecError, AttributeError, TypeError):
        return []
