"""How protocol and metadata differ from those of the version before, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anabranch.errors.base import DeltaError
from anabranch.protocol.actions import Metadata, Protocol
from anabranch.protocol.features import supported_features
from anabranch.schema.paths import schema_differences
from anabranch.schema.serialization import parse_schema
from anabranch.text_format import count, listed, plain


def protocol_changes(before: Protocol | None, protocol: Protocol) -> Iterator[str]:
    """The versions and features, or which features the protocol before did not support."""
    versions = f"reader version {protocol.min_reader_version} and writer version {protocol.min_writer_version}"
    features = sorted(supported_features(protocol))
    if before is None:
        names = f", with {listed([plain(name) for name in features])}" if protocol.writer_features else ""
        yield f"protocol: {versions}{names}"
        return
    old = supported_features(before)
    added, dropped = sorted(set(features) - old), sorted(old - set(features))
    phrases = [versions]
    if added:
        phrases.append(f"now supports {listed([plain(name) for name in added])}")
    if dropped:
        phrases.append(f"no longer supports {listed([plain(name) for name in dropped])}")
    yield f"protocol: {'; '.join(phrases)}"


def metadata_changes(before: Metadata | None, metadata: Metadata) -> Iterator[str]:
    """A line for each changed part of the description; all parts where no metadata came before."""
    if before is None:
        yield from _first_metadata(metadata)
        return
    if before.id != metadata.id:
        yield f"the table got another id: {plain(metadata.id)}"
    yield from _schema_change(before, metadata)
    if before.partition_columns != metadata.partition_columns:
        yield f"partitioned by {_names(metadata.partition_columns)}, was {_names(before.partition_columns)}"
    for name in sorted(before.configuration.keys() | metadata.configuration.keys()):
        value, former = metadata.configuration.get(name), before.configuration.get(name)
        if name not in metadata.configuration:
            yield f"unset property {plain(name)}, was {plain(former)}"
        elif name not in before.configuration:
            yield f"set property {plain(name)} = {plain(value)}"
        elif value != former:
            yield f"set property {plain(name)} = {plain(value)}, was {plain(former)}"
    for what in ("name", "description"):
        value, former = getattr(metadata, what), getattr(before, what)
        if value != former:
            yield f"{what}: {plain(value or 'none')}, was {plain(former or 'none')}"


def _first_metadata(metadata: Metadata) -> Iterator[str]:
    try:
        fields = parse_schema(metadata.schema_string, "the table").fields
    except DeltaError as error:
        yield f"schema: cannot be read: {plain(error.explain())}"
        return
    columns = [f"{plain(field.name)} {plain(field.dataType.simpleString())}" for field in fields]
    yield f"schema: {count(len(columns), 'column')}: {', '.join(columns)}"
    if metadata.partition_columns:
        yield f"partitioned by {_names(metadata.partition_columns)}"
    for name, value in sorted(metadata.configuration.items()):
        yield f"property {plain(name)} = {plain(value)}"


def _schema_change(before: Metadata, metadata: Metadata) -> Iterator[str]:
    if before.schema_string == metadata.schema_string:
        return
    try:
        after = parse_schema(metadata.schema_string, "the table")
        old = parse_schema(before.schema_string, "the table")
    except DeltaError as error:
        yield f"schema: cannot be read: {plain(error.explain())}"
        return
    changes = schema_differences(old, after)
    if not changes and old.fieldNames() != after.fieldNames():
        changes = ["columns in another order or spelling"]
    for change in changes:
        yield f"schema: {plain(change)}"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(plain(column) for column in columns) or "nothing"
