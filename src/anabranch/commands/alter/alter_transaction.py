"""The base of all ALTER TABLE commands: one commit that changes metadata and no row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructType

from anabranch.commands.catalog_registration import register_if_changed
from anabranch.commands.definition.table_definition import NO_REQUEST, ResolvedDefinition, altered_table
from anabranch.commands.read.read_table import scan_request
from anabranch.commands.table_access import TableRef
from anabranch.errors.constraints import ExistingRowsViolateError
from anabranch.protocol.actions import Action, DomainMetadata
from anabranch.protocol.features import check_writable
from anabranch.protocol.protocol_evolution import ProtocolRequest
from anabranch.schema.paths import quote
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction

ROWS_SHOWN_MAX = 3


class Alteration:
    """One ALTER TABLE of the newest version of a table.

    It remembers what it has read: a commit in between that would have changed its decision is a conflict. A commit that
    changed other parts of the metadata is no conflict where the two commute.
    """

    def __init__(self, table: TableRef) -> None:
        self.table = table
        self.snapshot: Snapshot = table.latest()
        check_writable(self.snapshot.protocol, table=table.label)
        self._reads_rows = False

    @property
    def label(self) -> str:
        """The name or path of the table in messages."""
        return self.table.label

    def rows(self) -> DataFrame:
        """All rows. After this call, commits that change rows are conflicts."""
        self._reads_rows = True
        return self.table.session.engine.scan(scan_request(self.table, self.snapshot))

    def check_rows(self, violated: Column, columns: Sequence[str], *, rule: str, expression: str) -> None:
        """Raises `ExistingRowsViolateError`, which shows `columns`, where `violated` is true for a row."""
        self.table.session.describe_jobs(f"ALTER TABLE {self.label}: {rule}")
        bad = self.rows().where(violated)
        shown = F.to_json(F.struct(*(F.col(quote(name)) for name in columns)), {"ignoreNullFields": "false"})
        examples = [row[0] for row in bad.select(shown).limit(ROWS_SHOWN_MAX).collect()]
        if examples:
            raise ExistingRowsViolateError(
                table=self.label, rule=rule, expression=expression, num_rows=bad.count(), rows=tuple(examples)
            )

    def define(
        self,
        *,
        schema: StructType | None = None,
        configuration: Mapping[str, str] | None = None,
        partition_columns: Sequence[str] | None = None,
        requested: ProtocolRequest = NO_REQUEST,
    ) -> ResolvedDefinition:
        """The table with these parts replaced; see `altered_table`."""
        return altered_table(
            self.snapshot.metadata,
            self.snapshot.protocol,
            schema=schema,
            configuration=configuration,
            partition_columns=partition_columns,
            requested=requested,
            label=self.label,
            source=self.table.session.random,
        )

    def commit(
        self,
        name: str,
        parameters: Mapping[str, Any],
        defined: ResolvedDefinition | None = None,
        domains: Sequence[DomainMetadata] = (),
        *,
        edited: Iterable[str] = (),
        tags: Mapping[str, str] | None = None,
    ) -> CommittedVersion | None:
        """Commit the changes under Delta's name of the operation; None where nothing changes.

        `edited` are all properties that the statement names, also those that keep their values.

        Raises as `Transaction.commit` does. Afterwards the new columns are in the catalog.
        """
        actions = self._changes(defined, domains)
        if not actions:
            return None
        committed = self._begin(name, parameters).commit(actions, tags=tags, edited_properties=frozenset(edited))
        if self.table.entry is not None:
            register_if_changed(self.table, self.table.entry, committed)
        return committed

    def _begin(self, name: str, parameters: Mapping[str, Any]) -> Transaction:
        operation = Operation(name=name, parameters=parameters)
        transaction = self.table.begin_at(operation, snapshot=self.snapshot)
        if self._reads_rows:
            transaction.record_whole_table()
        return transaction

    def _changes(self, defined: ResolvedDefinition | None, domains: Sequence[DomainMetadata]) -> list[Action]:
        before = self.snapshot
        actions: list[Action] = []
        if defined is not None and defined.protocol != before.protocol:
            check_writable(defined.protocol, table=self.label)
            actions.append(defined.protocol)
        if defined is not None and defined.metadata != before.metadata:
            actions.append(defined.metadata)
        actions += [domain for domain in domains if before.domain_metadata.get(domain.domain) != domain]
        return actions
