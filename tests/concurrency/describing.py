"""Statements on what describes a table: its columns, clustering, properties, features and constraints.

Each is a pure function on a description, which is None where the statement is refused; what a commit writes follows
from the difference of two descriptions.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from anabranch.protocol.actions import Action, AddFile, DomainMetadata, Metadata, Protocol
from anabranch.snapshot.snapshot import Snapshot
from concurrency.conditions import EVERY, Row, Where
from concurrency.statements import Plan, Statement, listed, look
from transactions.table_on_memory import domain, features

PHYSICAL, NUMBER, MAX_NUMBER = (
    "delta.columnMapping.physicalName",
    "delta.columnMapping.id",
    "delta.columnMapping.maxColumnId",
)
MAPS = {"delta.columnMapping.mode": "name"}
CLUSTERING, CONSTRAINT = "delta.clustering", "delta.constraints."
MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
ROW_TRACKING = "delta.enableRowTracking"
ID_COLUMNS = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
}
"""What a table says that has row tracking on."""
VECTORS = "deletionVectors"


@dataclasses.dataclass(frozen=True)
class NotNull:
    """The rule that a column allows no NULL."""

    column: str

    def __str__(self) -> str:
        return f"{self.column} IS NOT NULL"


@dataclasses.dataclass(frozen=True)
class Description:
    """A description of the table by logical names."""

    columns: tuple[str, ...]
    clustered: tuple[str, ...]
    properties: tuple[tuple[str, str], ...]
    """Sorted; those of column mapping and the names of columns of ids left out."""
    features: frozenset[str]
    required: tuple[str, ...] = ()
    """The columns that allow no NULL."""

    def having(self, **properties: str | None) -> Description:
        """The description with properties set, or unset by None."""
        values = dict(self.properties) | {name.replace("__", "."): value for name, value in properties.items()}  # type: ignore[operator]
        kept = {name: value for name, value in values.items() if value is not None}
        return dataclasses.replace(self, properties=tuple(sorted(kept.items())))

    def says(self, name: str) -> bool:
        return dict(self.properties).get(name) == "true"

    @property
    def rules(self) -> list[Where | NotNull]:
        """The constraints, and the columns that allow no NULL."""
        constraints = [rule_of(text) for name, text in self.properties if name.startswith(CONSTRAINT)]
        return [*constraints, *map(NotNull, self.required)]


def rule_of(text: str) -> Where:
    column, op, value = text.split()
    return Where(column, op, int(value))


def keeps_rules(row: Row, rules: Sequence[Where | NotNull]) -> bool:
    return all(_keeps_rule(row, rule) for rule in rules)


def _keeps_rule(row: Row, rule: Where | NotNull) -> bool:
    """NULL violates no constraint."""
    is_null = getattr(row, rule.column) is None
    return not is_null if isinstance(rule, NotNull) else is_null or rule(row)


def described(
    metadata: Mapping[str, Any], protocol: Mapping[str, Any], domains: Mapping[str, Mapping[str, Any]]
) -> Description:
    """The description in the actions of a log."""
    fields = json.loads(metadata["schemaString"])["fields"]
    logical = {field["metadata"].get(PHYSICAL, field["name"]): field["name"] for field in fields}
    clustering = domains.get(CLUSTERING)
    paths = json.loads(clustering["configuration"])["clusteringColumns"] if clustering else []
    unseen = {*MAPS, MAX_NUMBER, *ID_COLUMNS}
    return Description(
        columns=tuple(field["name"] for field in fields),
        clustered=tuple(logical.get(path[0], f"{path[0]}, which is gone") for path in paths),
        properties=tuple(
            sorted((name, text) for name, text in metadata["configuration"].items() if name not in unseen)
        ),
        features=frozenset(protocol.get("writerFeatures") or ()),
        required=tuple(field["name"] for field in fields if not field["nullable"]),
    )


def described_by(snapshot: Snapshot) -> Description:
    """The description of a version that was read."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return described(
        {"schemaString": metadata.schema_string, "configuration": metadata.configuration},
        {"writerFeatures": protocol.writer_features},
        {
            name: {"configuration": domain_metadata.configuration}
            for name, domain_metadata in snapshot.domain_metadata.items()
        },
    )


Change = Callable[[Description], Description | None]
Fits = Callable[[AddFile], bool]


@dataclasses.dataclass(frozen=True)
class Alter(Statement):
    """ALTER TABLE of some sort."""

    words: str
    change: Change = dataclasses.field(compare=False)
    renames: tuple[tuple[str, str], ...] = ()
    rule: Where | NotNull | None = None
    """A constraint that all rows must keep; it reads them."""
    fits: Fits = dataclasses.field(default=lambda add: True, compare=False)
    """What must be so of every file there is."""
    edited: frozenset[str] | None = frozenset()
    """The properties that it states; None for one that does not commute with any other change."""

    def plan(self, rows: Sequence[Row]) -> Plan:
        return Plan() if self.rule is None else Plan(looks=(look(EVERY, rows),))

    def may_run(self, rows: Sequence[Row], adds: Sequence[AddFile]) -> bool:
        keeps = self.rule is None or all(keeps_rules(row, [self.rule]) for row in rows)
        return keeps and all(map(self.fits, adds))

    def __str__(self) -> str:
        return f"ALTER TABLE {self.words}"


@dataclasses.dataclass(frozen=True)
class Replace(Statement):
    """REPLACE TABLE, or an overwrite with `overwriteSchema`: other columns, no clustering, other rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...] = ()

    def change(self, before: Description) -> Description:
        rest = tuple((name, text) for name, text in before.properties if not name.startswith(CONSTRAINT))
        return dataclasses.replace(before, columns=self.columns, clustered=(), properties=rest, required=())

    def plan(self, rows: Sequence[Row]) -> Plan:
        read = look(EVERY, rows)
        return Plan(looks=(read,), deletes=read.rows, inserts=self.rows)

    def __str__(self) -> str:
        return f"REPLACE TABLE ({', '.join(self.columns)}) AS {listed(self.rows)}"


def add_column(name: str) -> Alter:
    def change(before: Description) -> Description | None:
        return None if name in before.columns else dataclasses.replace(before, columns=(*before.columns, name))

    return Alter(f"ADD COLUMN {name}", change)


def drop_column(name: str) -> Alter:
    def change(before: Description) -> Description | None:
        if name not in before.columns or name in before.clustered:
            return None
        return dataclasses.replace(before, columns=tuple(column for column in before.columns if column != name))

    return Alter(f"DROP COLUMN {name}", change)


def rename_column(old: str, new: str) -> Alter:
    def change(before: Description) -> Description | None:
        if old not in before.columns or new in before.columns:
            return None

        def named(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(new if name == old else name for name in names)

        return dataclasses.replace(before, columns=named(before.columns), clustered=named(before.clustered))

    return Alter(f"RENAME COLUMN {old} TO {new}", change, renames=((new, old),))


def cluster_by(*columns: str) -> Alter:
    def change(before: Description) -> Description | None:
        if not set(columns) <= set(before.columns):
            return None
        return dataclasses.replace(
            before, clustered=columns, features=before.features | {"clustering", "domainMetadata"}
        )

    return Alter(f"CLUSTER BY ({', '.join(columns)})", change)


def set_property(name: str, value: str | None) -> Alter:
    words = f"UNSET {name}" if value is None else f"SET {name} = {value}"

    def change(before: Description) -> Description | None:
        if name == MANIFESTS and value == "true" and before.says("delta.enableDeletionVectors"):
            return None
        more = {"rowTracking", "domainMetadata"} if name == ROW_TRACKING and value == "true" else set()
        return dataclasses.replace(before.having(**{name: value}), features=before.features | more)

    fits: dict[str, Fits] = {
        MANIFESTS: lambda add: add.deletion_vector is None,
        ROW_TRACKING: lambda add: add.base_row_id is not None,
    }
    return Alter(
        words,
        change,
        fits=fits.get(name, lambda add: True) if value == "true" else lambda add: True,
        edited=frozenset({name}),
    )


def support_row_tracking() -> Alter:
    """The first commit of the statement that turns row tracking on. `Backfill` follows, and then the property."""

    def change(before: Description) -> Description:
        return dataclasses.replace(before, features=before.features | {"rowTracking", "domainMetadata"})

    return Alter("SET row tracking supported", change)


def set_not_null(column: str, *, required: bool = True) -> Alter:
    def change(before: Description) -> Description:
        return dataclasses.replace(before, required=(column,) if required else ())

    words = f"ALTER COLUMN {column} {'SET' if required else 'DROP'} NOT NULL"
    return Alter(words, change, rule=NotNull(column) if required else None)


def add_constraint(rule: Where) -> Alter:
    name = f"{CONSTRAINT}{rule.column}"

    def change(before: Description) -> Description | None:
        if name in dict(before.properties):
            return None
        after = before.having(**{name: f"{rule.column} {rule.op} {rule.value}"})
        return dataclasses.replace(after, features=before.features | {"checkConstraints"})

    return Alter(f"ADD CONSTRAINT {rule}", change, rule=rule, edited=frozenset({name}))


def drop_constraint(column: str) -> Alter:
    name = f"{CONSTRAINT}{column}"
    words = f"DROP CONSTRAINT on {column}"
    return Alter(words, lambda before: before.having(**{name: None}), edited=frozenset({name}))


def drop_vectors() -> Alter:
    def change(before: Description) -> Description | None:
        return dataclasses.replace(before, features=before.features - {VECTORS}) if VECTORS in before.features else None

    return Alter("DROP FEATURE deletionVectors", change, fits=lambda add: add.deletion_vector is None, edited=None)


def changes(snapshot: Snapshot, statement: Alter | Replace) -> list[Action] | None:
    """What describes the table afterwards, as far as it changes; None where the statement is refused."""
    before = described_by(snapshot)
    after = statement.change(before)
    if after is None:
        return None
    metadata = _metadata(snapshot, after, dict(statement.renames) if isinstance(statement, Alter) else {})
    actions: list[Action] = []
    if after.features != before.features:
        actions.append(_protocol(after))
    if metadata != snapshot.metadata or isinstance(statement, Replace):
        actions.append(metadata)
    clustering = snapshot.domain_metadata.get(CLUSTERING)
    if isinstance(statement, Replace):
        actions += [msgspec.structs.replace(clustering, removed=True)] if clustering else []
    elif after.clustered != before.clustered and not statement.renames:
        actions.append(_clustering(metadata, after.clustered))
    return actions


def _protocol(after: Description) -> Protocol:
    return features(*after.features)


def _clustering(metadata: Metadata, columns: Sequence[str]) -> DomainMetadata:
    fields = json.loads(metadata.schema_string)["fields"]
    physical = {field["name"]: field["metadata"].get(PHYSICAL, field["name"]) for field in fields}
    return domain(CLUSTERING, json.dumps({"clusteringColumns": [[physical[name]] for name in columns]}))


def _metadata(snapshot: Snapshot, after: Description, old_names: Mapping[str, str]) -> Metadata:
    """Columns that stay keep their ids and physical names; a column that comes gets new ones."""
    fields = {field["name"]: field for field in json.loads(snapshot.metadata.schema_string)["fields"]}
    number = int(snapshot.metadata.configuration[MAX_NUMBER])
    new_fields = []
    for name in after.columns:
        field = fields.get(old_names.get(name, name))
        if field is None:
            number += 1
            field = {"type": "long", "nullable": True, "metadata": {NUMBER: number, PHYSICAL: f"column {number}"}}
        new_fields.append({**field, "name": name, "nullable": name not in after.required})
    ids = ID_COLUMNS if after.says(ROW_TRACKING) else {}
    return msgspec.structs.replace(
        snapshot.metadata,
        schema_string=json.dumps({"type": "struct", "fields": new_fields}),
        configuration={**dict(after.properties), **MAPS, **ids, MAX_NUMBER: str(number)},
    )
