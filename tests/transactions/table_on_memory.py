"""A table in memory, with a clock that tests move, and writers that need no Spark."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from pyspark.sql.types import LongType, StringType, StructField, StructType

from anabranch.predicates.expressions import EQ, Column, Comparison, Literal, Predicate
from anabranch.protocol.actions import (
    PARQUET,
    Action,
    AddFile,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
)
from anabranch.storage.log_store import LogStore
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.commit_context import CommittedVersion, RetryLimits
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction

SCHEMA = StructType(
    [StructField("id", LongType()), StructField("date", StringType()), StructField("value", LongType())]
)
PLAIN = Protocol(min_reader_version=1, min_writer_version=2)
FEATURES = (
    "appendOnly",
    "checkConstraints",
    "clustering",
    "deletionVectors",
    "domainMetadata",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "rowTracking",
)


class TestClock:
    """A clock that stops until a test moves it, or code sleeps."""

    __test__ = False

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = float(now_ms)
        self.naps: list[float] = []

    def now_ms(self) -> int:
        return int(self.time_ms)

    def elapsed_ms(self) -> int:
        return int(self.time_ms)

    def sleep_ms(self, duration_ms: float) -> None:
        self.naps.append(duration_ms)
        self.time_ms += duration_ms


def features(*names: str) -> Protocol:
    """A protocol that lists these features."""
    both = sorted(name for name in names if name in {"deletionVectors", "v2Checkpoint", "columnMapping"})
    return Protocol(
        min_reader_version=3 if both else 1,
        min_writer_version=7,
        reader_features=both or None,
        writer_features=sorted(names),
    )


def metadata(
    schema: StructType = SCHEMA,
    *,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    table_id: str = "table-1",
) -> Metadata:
    return Metadata(
        id=table_id,
        format=PARQUET,
        schema_string=schema.json(),
        partition_columns=list(partition_by),
        configuration=dict(properties or {}),
        created_time=0,
    )


def with_properties(current: Metadata, **properties: str) -> Metadata:
    """Names with `_` for `.`; only the part behind `delta.`."""
    named = {"delta." + name.replace("_", "."): value for name, value in properties.items()}
    return msgspec.structs.replace(current, configuration={**current.configuration, **named})


def add(
    path: str,
    *,
    ids: tuple[int, int] | None = (0, 9),
    rows: int = 10,
    date: str | None = None,
    data_change: bool = True,
    vector: str | None = None,
    hidden: int = 1,
) -> AddFile:
    """A file whose `id` column lies within `ids`; without `ids` it has no statistics."""
    stats: dict[str, Any] | None = None
    if ids is not None:
        least, greatest = ids
        stats = {"numRecords": rows, "minValues": {"id": least}, "maxValues": {"id": greatest}, "nullCount": {"id": 0}}
    return AddFile(
        path=path,
        partition_values={} if date is None else {"date": date},
        size=100,
        modification_time=0,
        data_change=data_change,
        stats=None if stats is None else json.dumps(stats),
        deletion_vector=None if vector is None else vector_of(vector, hidden),
    )


def vector_of(name: str, hidden: int = 1) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(
        storage_type="u", path_or_inline_dv=name.rjust(20, "0"), offset=1, size_in_bytes=40, cardinality=hidden
    )


def remove(file: AddFile, *, data_change: bool = True) -> RemoveFile:
    return RemoveFile(
        path=file.path,
        deletion_timestamp=0,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values=file.partition_values,
        size=file.size,
        deletion_vector=file.deletion_vector,
        base_row_id=file.base_row_id,
        default_row_commit_version=file.default_row_commit_version,
    )


def id_is(value: int) -> Predicate:
    return Comparison(EQ, Column(("id",)), Literal(value, LongType()))


def date_is(value: str) -> Predicate:
    return Comparison(EQ, Column(("date",)), Literal(value, StringType()))


def domain(name: str, configuration: str = "{}") -> DomainMetadata:
    return DomainMetadata(domain=name, configuration=configuration, removed=False)


@dataclasses.dataclass(kw_only=True)
class Writer:
    """One process: its own view of the table, over a storage that others use too."""

    store: LogStore
    clock: TestClock
    table: DeltaLog

    def begin(self, name: str = "WRITE") -> Transaction:
        return self.table.begin(Operation(name=name))

    def append(self, *files: AddFile) -> CommittedVersion:
        return self.begin("WRITE").commit(files)

    def read(self, where: Predicate, *files: AddFile, name: str = "DELETE") -> Transaction:
        """A transaction that has opened `files` to find the rows for `where`."""
        transaction = self.begin(name)
        transaction.record_scan(where, files=[file.key for file in files])
        return transaction

    def rewrite(self, old: AddFile, new: AddFile, *, where: Predicate, name: str = "UPDATE") -> CommittedVersion:
        """Change rows of one file, having read no other."""
        return self.read(where, old, name=name).commit([remove(old), new])

    def optimize(self, old: Sequence[AddFile], new: Sequence[AddFile]) -> CommittedVersion:
        return self.begin("OPTIMIZE").commit(
            [
                *(remove(file, data_change=False) for file in old),
                *(msgspec.structs.replace(file, data_change=False) for file in new),
            ]
        )

    def commit(self, actions: Sequence[Action], *, name: str = "WRITE") -> CommittedVersion:
        return self.begin(name).commit(actions)


def writer(
    store: LogStore | None = None,
    *,
    clock: TestClock | None = None,
    seed: int = 0,
    bounds: RetryLimits | None = None,
) -> Writer:
    """A writer on `store`; several on one store are rivals."""
    clock = clock or TestClock()
    store = store if store is not None else MemoryStore(clock=clock)
    table = DeltaLog(store, clock, random.Random(seed), bounds=bounds or RetryLimits())
    return Writer(store=store, clock=clock, table=table)


def created(
    *files: AddFile,
    protocol: Protocol = PLAIN,
    described: Metadata | None = None,
    store: LogStore | None = None,
) -> Writer:
    """A table whose version 0 holds these files."""
    made = writer(store, seed=1)
    made.commit([protocol, described or metadata(), *files], name="CREATE TABLE AS SELECT")
    return made


def rival_of(
    first: Writer, *, seed: int = 2, store: LogStore | None = None, bounds: RetryLimits | None = None
) -> Writer:
    """Another process on the same table."""
    return writer(store if store is not None else first.store, clock=first.clock, seed=seed, bounds=bounds)
