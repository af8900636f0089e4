"""A table in memory for the real snapshots, transactions and conflict checks. Only rows are played: a "data file" is
a list of Python values."""

from __future__ import annotations

import dataclasses
import functools
import json
import random
from collections.abc import Sequence

from pyroaring import BitMap64
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.errors.commits import RowValues
from anabranch.protocol.actions import Action, AddCDCFile, AddFile, CommitInfo
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.after_commit import AfterCommit
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.read_set import EvaluateRows, RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors
from anabranch.transactions.rows.row_ids import NO_ROW_IDS, with_row_ids
from concurrency.conditions import Condition, Row
from concurrency.finding import finding
from concurrency.played_ids import KeptId
from transactions.table_on_memory import TestClock, features, metadata, with_properties

SCHEMA = StructType([StructField("k", LongType()), StructField("v", LongType())])
NAMED_SCHEMA = StructType(
    [
        StructField(
            name, LongType(), metadata={"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name}
        )
        for number, name in enumerate(("k", "v", "a"), start=1)
    ]
)
"""No statement reads or writes `a`; it exists to be dropped."""
IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True}
NAMES = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
NOW_MS = 1_700_000_000_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manner:
    """How executors of a history record in transactions what they read."""

    statistics: str = "bounds"
    """What files say of themselves: `bounds`, only `counts` of rows, or `nothing`."""
    names_rows: bool = True
    """Whether scans name the rows that satisfied them."""
    reevaluates: bool = True
    """Whether conditions can be evaluated for other rows."""
    whole_files: bool = False
    """Whether a file of which all rows go is named as such, and its rows are not."""
    tracks_rows: bool = False
    """Whether the table gives its rows ids; it needs counts for that."""
    vectors: bool = True
    """Whether the table supports deletion vectors. Without them every change rewrites files."""
    describes: bool = False
    """Whether the table has names for its columns, so that statements on its description may change them."""
    numbers_rows: bool = False
    """Whether `v` is an identity column. For tables whose description changes at times, and whose files have bounds."""
    partitioned: bool = False
    """Whether the table is partitioned by `k`."""
    feeds: bool = False
    """Whether the table has a change data feed."""
    finds_rows: bool = False
    """Whether rows that were moved without word of where to can be found by their values."""


AS_USUAL = Manner()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Version:
    """One version of a played table: its live files and the rows that each hides."""

    snapshot: Snapshot
    adds: list[AddFile]
    hidden: list[BitMap64]


@dataclasses.dataclass(kw_only=True)
class PlayedTable:
    """One table and its data files."""

    store: MemoryStore
    clock: TestClock
    table: DeltaLog
    manner: Manner
    data: dict[str, tuple[Row, ...]]
    """Physical rows by path."""
    kept: dict[str, tuple[KeptId | None, ...]] = dataclasses.field(default_factory=dict)
    """What files keep of the ids of their rows."""
    changes: dict[str, tuple[tuple[str, Row], ...]] = dataclasses.field(default_factory=dict)
    """The rows of change data files by path, each with the type of its change."""
    versions: dict[int, Version] = dataclasses.field(default_factory=dict)
    """Those that were looked at."""
    random: random.Random = dataclasses.field(default_factory=lambda: random.Random(1))

    @classmethod
    def created(cls, files: Sequence[Sequence[Row]], *, level: str, manner: Manner = AS_USUAL) -> PlayedTable:
        clock = TestClock(NOW_MS)
        store = MemoryStore(clock=clock)
        data: dict[str, tuple[Row, ...]] = {}
        kept: dict[str, tuple[KeptId | None, ...]] = {}
        find_rows = finding(store, data, kept) if manner.finds_rows else None
        table = DeltaLog(store, clock, random.Random(0), after_commit=AfterCommit(), find_rows=find_rows)
        played = cls(store=store, clock=clock, table=table, manner=manner, data=data, kept=kept)
        adds: tuple[Action, ...] = tuple(add for rows in files for add in played.write_files(rows))
        if manner.tracks_rows:
            adds = with_row_ids(adds, after=NO_ROW_IDS, version=0, table=store.root)
        store.put(commit_path(0), _description(level, manner) + b"\n" + encode_actions(adds))
        return played

    def rewind(self, version: int) -> None:
        """Forget what came after this version, to go on from it in another way."""
        for newer in [number for number in self.versions if number > version]:
            del self.versions[newer]
        newer = version + 1
        while self.store.head(commit_path(newer)) is not None:
            self.store.delete(commit_path(newer))
            newer += 1
        # Snapshots distinguish files of one name by their times.
        self.clock.time_ms += 1

    def version(self, snapshot: Snapshot | None = None) -> Version:
        """The newest, or that of `snapshot`."""
        read = snapshot or self.table.snapshots.latest()
        version = self.versions.get(read.version)
        if version is None:
            adds = read.files.to_actions()
            version = self.versions[read.version] = Version(snapshot=read, adds=adds, hidden=self.hidden(adds))
        return version

    def rows(self, snapshot: Snapshot) -> list[Row]:
        """The rows of a version."""
        read = self.version(snapshot)
        return [
            row
            for add, hidden in zip(read.adds, read.hidden, strict=True)
            for position, row in enumerate(self.data[add.path])
            if position not in hidden
        ]

    def hidden(self, adds: Sequence[AddFile]) -> list[BitMap64]:
        return StoredVectors(self.store, random.Random(0)).hidden(adds)

    def write_files(self, rows: Sequence[Row], *, kept: Sequence[KeptId | None] = ()) -> list[AddFile]:
        """These rows as a new data file, or as one in each of their partitions."""
        ids = kept or [None] * len(rows)
        in_files: dict[int | None, list[int]] = {}
        for number, row in enumerate(rows):
            in_files.setdefault(row.k if self.manner.partitioned else None, []).append(number)
        return [
            self.write([rows[number] for number in numbers], kept=[ids[number] for number in numbers])
            for numbers in in_files.values()
        ]

    def write(
        self,
        rows: Sequence[Row],
        *,
        data_change: bool = True,
        counted: bool = False,
        kept: Sequence[KeptId | None] = (),
    ) -> AddFile:
        """A new data file; it says how many rows it has, if it is `counted`, in any case. `kept` are ids of rows that it
        keeps."""
        path = f"f{len(self.data)}.parquet"
        self.data[path] = tuple(rows)
        if any(kept):
            assert len(kept) == len(rows)
            self.kept[path] = tuple(kept)
        return AddFile(
            path=path,
            partition_values={"k": str(rows[0].k)} if self.manner.partitioned else {},
            size=100 * len(rows),
            modification_time=NOW_MS,
            data_change=data_change,
            stats=json.dumps(self._statistics(rows)) if self.manner.statistics != "nothing" or counted else None,
        )

    def write_changes(self, changes: Sequence[tuple[str, Row]]) -> list[AddCDCFile]:
        """A new change data file; none without changes."""
        if not changes:
            return []
        path = f"_change_data/c{len(self.changes)}.parquet"
        self.changes[path] = tuple(changes)
        return [AddCDCFile(path=path, partition_values={}, size=100 * len(changes), data_change=False)]

    def _statistics(self, rows: Sequence[Row]) -> dict[str, object]:
        statistics: dict[str, object] = {"numRecords": len(rows), "tightBounds": True}
        if self.manner.statistics == "bounds":
            columns = {
                name: [value for row in rows if (value := getattr(row, name)) is not None]
                for name in (["v"] if self.manner.partitioned else Row._fields)
            }
            statistics["minValues"] = {name: min(values) for name, values in columns.items() if values}
            statistics["maxValues"] = {name: max(values) for name, values in columns.items() if values}
            statistics["nullCount"] = {name: len(rows) - len(values) for name, values in columns.items()}
        return statistics

    def evaluator(self, condition: Condition) -> EvaluateRows:
        """A function that evaluates the condition for rows of any file."""

        def evaluate(candidates: Sequence[RowsOfFile]) -> list[BitMap64 | None]:
            hidden = self.hidden([rows.file for rows in candidates])
            return [
                self._satisfying(rows, hidden_rows, condition)
                for rows, hidden_rows in zip(candidates, hidden, strict=True)
            ]

        return evaluate

    def _satisfying(self, rows: RowsOfFile, hidden: BitMap64, condition: Condition) -> BitMap64:
        data = self.data[rows.file.path]
        candidates = rows.positions if rows.positions is not None else set(range(len(data))) - set(hidden)
        assert not set(candidates) & set(hidden), "the condition is evaluated for hidden rows"
        return BitMap64([position for position in candidates if condition(data[position])])

    def described(self, rows: Sequence[RowsOfFile]) -> list[RowValues]:
        """Rows by their values. None of them may be one that is hidden: a reader could not show it."""
        for file_rows, hidden in zip(rows, self.hidden([file_rows.file for file_rows in rows]), strict=True):
            assert file_rows.positions, "no row is described"
            assert not file_rows.positions & hidden, "hidden rows are described"
        return [
            values_of(self.data[file_rows.file.path][position])
            for file_rows in rows
            for position in file_rows.positions or ()
        ]


def _numbered(schema: StructType) -> StructType:
    """The first version has values up to 9."""
    marked = {**IDENTITY, "delta.identity.highWaterMark": 9}
    return StructType(
        [
            StructField(
                field.name, field.dataType, metadata={**field.metadata, **(marked if field.name == "v" else {})}
            )
            for field in schema
        ]
    )


def values_of(row: Row) -> RowValues:
    """The row as a conflict shows it."""
    return tuple((name, "NULL" if value is None else str(value)) for name, value in row._asdict().items())


@functools.cache
def _description(level: str, manner: Manner) -> bytes:
    """The actions of version 0 that are not files."""
    names = ["appendOnly", "invariants", "domainMetadata"]
    names += ["deletionVectors"] if manner.vectors else []
    names += ["rowTracking"] if manner.tracks_rows else []
    names += ["columnMapping", "checkConstraints"] if manner.describes else []
    names += ["identityColumns"] if manner.numbers_rows else []
    names += ["changeDataFeed"] if manner.feeds else []
    schema, properties = (NAMED_SCHEMA, NAMES) if manner.describes else (SCHEMA, {})
    if manner.numbers_rows:
        schema = _numbered(schema)
    described = metadata(schema, properties=properties, partition_by=["k"] if manner.partitioned else ())
    info = CommitInfo(
        timestamp=NOW_MS,
        operation="CREATE TABLE AS SELECT",
        operation_parameters={},
        isolation_level=level,
        is_blind_append=True,
        engine_info="the played table",
        txn_id="created",
    )
    feed = {"enableChangeDataFeed": "true"} if manner.feeds else {}
    return encode_actions([info, features(*names), with_properties(described, isolationLevel=level, **feed)])
