"""Clustering columns, by which OPTIMIZE orders rows. See "Clustered Table" of PROTOCOL.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from pyspark.sql.types import StructType

from anabranch.errors.alterations import (
    ClusteringMismatchError,
    ClusteringOfPartitionsError,
    ClusteringWithoutStatisticsError,
    DuplicateClusteringColumnError,
    TooManyClusteringColumnsError,
    UnorderedClusteringColumnError,
)
from anabranch.errors.commits import MalformedDomainError
from anabranch.errors.tables import InvalidIdentifierError
from anabranch.protocol.actions import DomainMetadata, Metadata
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.statistics import has_bounds, indexed_columns
from anabranch.schema.column_changes import spelled
from anabranch.schema.column_mapping import ColumnMappingMode, logical_path, physical_path
from anabranch.schema.paths import FieldPath, child, find, fold, quoted
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.table_identifiers import split_identifier
from anabranch.transactions.conflicts.description_rules import CLUSTERING_DOMAIN, faults_of_description

CLUSTERING_COLUMNS_MAX = 4


class _Clustering(msgspec.Struct, rename="camel"):
    clustering_columns: list[list[str]] = []


_DECODER = msgspec.json.Decoder(_Clustering)


def clustering_columns(snapshot: Snapshot) -> tuple[FieldPath, ...]:
    """Logical paths of the columns that the table is clustered by. Raises `MalformedDomainError`."""
    domain = snapshot.domain_metadata.get(CLUSTERING_DOMAIN)
    if domain is None or domain.removed:
        return ()
    try:
        columns = _DECODER.decode(domain.configuration).clustering_columns
    except msgspec.MsgspecError as error:
        raise MalformedDomainError(table=snapshot.table_root, domain=CLUSTERING_DOMAIN, reason=str(error)) from error
    paths = [logical_path(snapshot.schema, tuple(path), snapshot.column_mapping_mode) for path in columns]
    return tuple(path for path in paths if path is not None)


def quoted_clustering_columns(snapshot: Snapshot) -> list[str]:
    """Logical names of the columns that the table is clustered by; none for a table without."""
    return [quoted(path) for path in clustering_columns(snapshot)]


def clustering_shown(snapshot: Snapshot) -> list[str]:
    """The columns as Spark writes them; none where the domain is malformed, since the rows can still be read."""
    try:
        return [quoted(path) for path in clustering_columns(snapshot)]
    except MalformedDomainError:
        return []


def check_clustering(cluster_by: Sequence[str], snapshot: Snapshot, *, table: str) -> None:
    """Check that the `clusterBy` of a write, if it has one, names the clustering columns of the table.

    Raises `ClusteringMismatchError`, `MalformedDomainError`.
    """
    if not cluster_by:
        return
    actual = clustering_columns(snapshot)
    named = [column_named(snapshot.schema, name) for name in cluster_by]
    if [tuple(map(fold, path)) for path in named] != [tuple(map(fold, path)) for path in actual]:
        names = tuple(quoted(path) for path in actual)
        raise ClusteringMismatchError(table=table, given=tuple(cluster_by), actual=names)


def clustering_removal(snapshot: Snapshot, metadata: Metadata) -> list[DomainMetadata]:
    """The domain that removes the clustering where it does not fit the new columns and partitions of the table."""
    faults = faults_of_description(metadata, snapshot.domain_metadata, table=snapshot.table_root)
    if next(faults, None) is None:
        return []
    return [msgspec.structs.replace(snapshot.domain_metadata[CLUSTERING_DOMAIN], removed=True)]


def column_named(schema: StructType, name: str) -> FieldPath:
    """The path of a name with dots, whose parts may be in backticks; a column of exactly this name takes precedence."""
    if child(schema, name) is not None:
        return (name,)
    try:
        return split_identifier(name)
    except InvalidIdentifierError:
        return tuple(name.split("."))


def clustering_domain(
    columns: Sequence[FieldPath],
    schema: StructType,
    properties: TableProperties,
    partition_columns: Sequence[str],
    *,
    label: str,
) -> DomainMetadata:
    """The domain that names the clustering columns; they may be none. Raises `InvalidClusteringError`."""
    names = tuple(quoted(path) for path in columns)
    if partition_columns and columns:
        reason = "it is partitioned, and a table is either partitioned or clustered"
        raise ClusteringOfPartitionsError(table=label, columns=names, reason=reason)
    twice = [name for name, count in Counter(map(str.lower, names)).items() if count > 1]
    if twice:
        raise DuplicateClusteringColumnError(table=label, columns=names, reason=f"{', '.join(twice)} comes twice")
    if len(columns) > CLUSTERING_COLUMNS_MAX:
        reason = f"a table can be clustered by at most {CLUSTERING_COLUMNS_MAX} columns"
        raise TooManyClusteringColumnsError(table=label, columns=names, reason=reason)
    mode = ColumnMappingMode.parse(properties.column_mapping_mode)
    indexed = indexed_columns(schema, properties, partition_columns=partition_columns)
    physical: list[FieldPath] = []
    for path in columns:
        logical = spelled(schema, path, table=label)
        field = find(schema, logical)
        assert field is not None
        path_in_files = physical_path(schema, logical, mode)
        if isinstance(field.dataType, StructType) or not has_bounds(field.dataType):
            reason = f"values of {quoted(path)} are {field.dataType.simpleString()}, unordered"
            raise UnorderedClusteringColumnError(table=label, columns=names, reason=reason)
        if path_in_files not in indexed:
            reason = f"the table keeps no statistics of {quoted(path)}; add it to delta.dataSkippingStatsColumns"
            raise ClusteringWithoutStatisticsError(table=label, columns=names, reason=reason)
        physical.append(path_in_files)
    configuration = {"clusteringColumns": physical, "domainName": CLUSTERING_DOMAIN}
    return DomainMetadata(
        domain=CLUSTERING_DOMAIN, configuration=msgspec.json.encode(configuration).decode(), removed=False
    )
