"""The operations whose calls fail, one call at a time. What needs Spark, such as reading data files, is left out."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping

from anabranch.commands.clone.clone_definition import CloneSource, clone_definition, cloned_files
from anabranch.commands.clone.clone_table import planned_clone
from anabranch.commands.convert.convert_files import FooterFiles
from anabranch.log.file_columns import LIVE_FILE_SCHEMA, adds_of_table
from anabranch.protocol.actions import Action, AddFile
from anabranch.protocol.data_paths import encode_path
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.memory_store import MemoryStore
from anabranch.streaming.source_options import SourceOptions
from anabranch.streaming.stream_source import StreamSource
from anabranch.transactions.proposed_commit import Operation as OperationName
from calls.tables import FirstState, no_table, old_table, process_on
from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.describing import Replace, add_column, set_property, support_row_tracking
from concurrency.executor import begin
from concurrency.merging import Merge
from concurrency.played_table import AS_USUAL, SCHEMA, Manner
from concurrency.played_transactions import RunningTransaction
from concurrency.several_statements import Query, SeveralStatements
from concurrency.statements import Delete, Insert, Numbered, Optimize, ReplaceWhere, Restore, Statement, Update
from simulation.acts import Act, Checkpoint, CleanUp, CompactLog, Process, Vacuum
from simulation.other_acts import GiveRowIds
from simulation.simulated_table import SimulatedTable
from transactions.table_on_memory import features, metadata

Held = Counter[Row]


class WrongRows(AssertionError):
    """A read that returned other rows than the table has, instead of an error."""


@dataclasses.dataclass(kw_only=True)
class Work:
    """What an operation works with."""

    table: SimulatedTable
    first: FirstState
    rival: Callable[[Statement], None]
    """Has another process, whose calls do not fail, commit a statement."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation, and what it must do to the rows."""

    name: str
    run: Callable[[Work], int | None]
    """Returns the version that it committed."""
    manner: Manner = AS_USUAL
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    effect: Callable[[Held, FirstState], Held] = lambda rows, first: rows
    rivals: Statement | None = None
    """What another process commits meanwhile."""
    begins_without: Callable[[], FirstState] | None = None
    """The folder that it begins with, where that is no table yet. Then it cannot be repeated after it has landed."""
    commits_max: int = 1

    def first_state(self) -> FirstState:
        return self.begins_without() if self.begins_without else old_table(self.manner, self.properties)

    def after_rival(self, rows: Held) -> Held:
        return rows if self.rivals is None else changed_by(self.rivals, rows)


def changed_by(statement: Statement, rows: Held) -> Held:
    """The rows after a statement, as a pure function."""
    effect = statement.effect(list(rows.elements()))
    return rows - effect.deleted + effect.inserted


def statement(name: str, changes: Statement, **how: object) -> Operation:
    """The operation that begins and commits a statement."""

    def run(work: Work) -> int | None:
        running = begin(work.table, changes)
        if operation.rivals is not None:
            work.rival(operation.rivals)
        committed = running.commit()
        return None if committed is None else committed.version

    effect = lambda rows, first: changed_by(changes, rows)  # noqa: E731
    operation = Operation(name=name, run=run, **{"effect": effect, **how})  # type: ignore[arg-type]
    return operation


def act(name: str, performed: Act, **how: object) -> Operation:
    """The operation that an act of the simulation is."""

    def run(work: Work) -> None:
        performed.run(_process(work.table))

    return Operation(name=name, run=run, **how)  # type: ignore[arg-type]


def _process(table: SimulatedTable) -> Process:
    """The table as acts of the simulation have it."""
    return Process(turn=None, played=table, watch=None, attempt=None, memory={})  # type: ignore[arg-type]


def _several(work: Work) -> int | None:
    running = RunningTransaction(work.table, TRANSACTION)
    for _ in TRANSACTION.steps:
        running.proceed()
    committed = running.commit()
    return None if committed is None else committed.version


def _create(work: Work) -> int:
    """CREATE TABLE AS SELECT; with no rows it is CREATE TABLE."""
    table = work.table
    transaction = table.table.begin_at(OperationName(name="CREATE TABLE AS SELECT"), snapshot=None)
    actions: list[Action] = [features("deletionVectors"), metadata(SCHEMA)]
    return transaction.commit([*actions, *table.write_files((Row(1, 1), Row(2, 2)))]).version


def _convert(work: Work) -> int:
    """The commit of CONVERT TO DELTA: what Spark has no part in."""
    table = work.table
    files = FooterFiles(table.store, table="t", ignores_corrupt_files=False)
    listed = [file for file in table.store.list_tree() if not file.path.startswith("_")]
    adds = [
        AddFile(
            path=encode_path(file.path),
            partition_values={},
            size=file.stored.size_bytes,
            modification_time=file.stored.modified_ms,
            data_change=True,
        )
        for file in files.read(listed)
    ]
    transaction = table.table.begin_at(OperationName(name="CONVERT"), snapshot=None)
    transaction.record_whole_table()
    return transaction.commit([features("deletionVectors"), metadata(SCHEMA), *adds]).version


CLONED_ROOT = "/other/table"


@functools.cache
def _cloned() -> tuple[Snapshot, dict[str, tuple[Row, ...]]]:
    """A table in another folder, whose files no operation changes; and what they hold, by their names in a clone."""
    first = old_table(Manner(vectors=False), {})
    store = MemoryStore(CLONED_ROOT)
    for path, (data, _) in first.files.items():
        store.put(path, data)
    snapshot = process_on(store, first.rows, AS_USUAL).table.snapshots.latest()
    return snapshot, {f"file:{CLONED_ROOT}/{path}": held for path, held in first.rows.data.items()}


def _clone(work: Work) -> int:
    """SHALLOW CLONE onto a table, as `prepare_clone` does it without a session."""
    table, (snapshot, rows) = work.table, _cloned()
    table.data.update(rows)
    source = CloneSource(
        name="t",
        version=snapshot.version,
        root=CLONED_ROOT,
        folders=(),
        metadata=snapshot.metadata,
        protocol=snapshot.protocol,
        domains={},
        files=snapshot.files.columns(*LIVE_FILE_SCHEMA.names),
    )
    target = table.table.snapshots.latest()
    defined = clone_definition(source, target, {}, label="t", random=table.random)
    files = cloned_files(source.files, source_root=source.root, folders=(), target_root=table.store.root)
    transaction = table.table.begin_at(OperationName(name="CLONE"), snapshot=target)
    transaction.record_whole_table()
    adds = adds_of_table(files, data_change=True)
    return planned_clone(transaction, defined, adds, now_ms=table.clock.now_ms()).commit().committed.version


def _cloned_rows(rows: Held, first: FirstState) -> Held:
    snapshot, data = _cloned()
    paths = snapshot.files.columns("path")["path"].to_pylist()
    return Counter(row for path in paths for row in data[f"file:{CLONED_ROOT}/{path}"])


def _read(work: Work) -> None:
    """The newest version, an older one, and the history."""
    table, snapshots = work.table, work.table.table.snapshots
    expected = [(snapshots.latest(), work.first.shown)]
    snapshots.history()
    if snapshots.earliest_version() == 0:
        expected.append((snapshots.at_version(0), work.first.shown_first))
    for snapshot, held in expected:
        rows = Counter(table.rows(snapshot))
        if rows != held:
            raise WrongRows(f"version {snapshot.version} is read as {dict(rows)} where it has {dict(held)}")


def _stream(work: Work) -> None:
    """Two micro-batches from the table."""
    snapshots = work.table.table.snapshots
    options = SourceOptions(skip_change_commits=True, files_max=1)
    source = StreamSource(snapshots, table="t", snapshot=snapshots.latest(), options=options, to_milliseconds=int)
    start, read = None, Counter[str]()
    for _ in range(4):
        end = source.latest_offset(start)
        if end is None or end == start:
            break
        for part in source.batch(start, end):
            paths = [] if part.files.adds is None else part.files.adds["path"].to_pylist()
            read.update(paths[part.first : part.end])
        start = end
    live = Counter(snapshots.latest().files.columns("path")["path"].to_pylist())
    if read != live:
        raise WrongRows(f"a stream has read {dict(read)} where the table has {dict(live)}")


def _row_ids(work: Work) -> None:
    """Row tracking for a table that has rows: support for it, then the ids, in a commit for each batch."""
    begin(work.table, support_row_tracking()).commit()
    GiveRowIds(0).run(_process(work.table))


TRANSACTION = SeveralStatements(
    (
        Insert((Row(8, 8),)),
        Delete(Where("k", "=", 1)),
        Query(EVERY),
        Update(Where("k", "=", 8), Change("v", 1, adds=True)),
    )
)
VECTORLESS = Manner(vectors=False)
DESCRIBED = Manner(describes=True)
MERGE = Merge((Row(2, 20), Row(9, 9)), matched="update", inserts=True, not_in_source=Where("k", "=", 4))
V2 = {"delta.checkpointPolicy": "v2"}
TWO_FILES = {"a.parquet": (Row(1, 1), Row(2, 2)), "b-c.parquet": (Row(3, 3),)}

OPERATIONS = (
    Operation(
        name="CREATE TABLE AS SELECT",
        run=_create,
        begins_without=no_table,
        effect=lambda rows, first: Counter((Row(1, 1), Row(2, 2))),
    ),
    Operation(
        name="CONVERT TO DELTA",
        run=_convert,
        begins_without=lambda: no_table(TWO_FILES),
        effect=lambda rows, first: Counter(row for held in TWO_FILES.values() for row in held),
    ),
    statement("append", Insert((Row(8, 8),))),
    statement("append, v2 checkpoint", Insert((Row(8, 8),)), properties=V2),
    statement(
        "append, in-commit timestamps", Insert((Row(8, 8),)), properties={"delta.enableInCommitTimestamps": "true"}
    ),
    statement(
        "append, manifests",
        Insert((Row(8, 8),)),
        manner=VECTORLESS,
        properties={"delta.compatibility.symlinkFormatManifest.enabled": "true"},
    ),
    statement("append behind another", Insert((Row(8, 8),)), rivals=Insert((Row(9, 9),))),
    statement("overwrite", ReplaceWhere(EVERY, (Row(8, 8),))),
    statement("REPLACE WHERE", ReplaceWhere(Where("k", "<", 3), (Row(1, 8),)), manner=VECTORLESS),
    statement("DELETE", Delete(Where("k", "<", 3))),
    statement("DELETE, rewriting files", Delete(Where("k", "<", 3)), manner=VECTORLESS),
    statement("DELETE behind another", Delete(Where("k", "=", 4)), rivals=Delete(Where("k", "=", 5))),
    statement("UPDATE", Update(Where("k", "<", 3), Change("v", 1, adds=True)), manner=Manner(feeds=True)),
    statement("MERGE", MERGE),
    statement("MERGE, row ids", MERGE, manner=Manner(tracks_rows=True)),
    statement("OPTIMIZE", Optimize()),
    statement("OPTIMIZE behind a DELETE", Optimize(), rivals=Delete(Where("k", "=", 2))),
    statement(
        "RESTORE",
        Restore(),
        effect=lambda rows, first: first.shown_first,
        # So the log is not cleaned up behind it, and version 0 is there when it is repeated.
        properties={"delta.checkpointInterval": "100"},
    ),
    statement("a table's property", set_property("delta.appendOnly", "false"), manner=DESCRIBED),
    statement("ADD COLUMN", add_column("b"), manner=DESCRIBED),
    statement("REPLACE TABLE", Replace(("k", "v"), (Row(8, 8),)), manner=DESCRIBED),
    statement("a stream's batch into the table", Numbered((Row(8, 8),), number=1)),
    Operation(name="batches of a stream from the table", run=_stream),
    Operation(name="BEGIN … COMMIT", run=_several, effect=lambda rows, first: changed_by(TRANSACTION, rows)),
    statement("row tracking supported", support_row_tracking(), manner=DESCRIBED),
    Operation(name="row ids in batches", run=_row_ids, manner=DESCRIBED, commits_max=3),
    Operation(name="SHALLOW CLONE", run=_clone, effect=_cloned_rows),
    act("checkpoint", Checkpoint(0)),
    act("v2 checkpoint", Checkpoint(0), properties=V2),
    act("clean-up of the log", CleanUp(0)),
    act("log compaction", CompactLog(0, 2)),
    act("VACUUM", Vacuum(0, None), commits_max=2),
    # Without clean-up of the log, behind which it is refused until a full VACUUM has run.
    act("VACUUM LITE", Vacuum(0, None, lite=True), properties={"delta.checkpointInterval": "100"}, commits_max=2),
    Operation(name="SELECT", run=_read),
    Operation(name="SELECT, v2 checkpoint", run=_read, properties=V2),
)
