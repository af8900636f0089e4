"""Every parser of bytes that others wrote, each as a function of bytes, with inputs that it accepts.

What a function raises beyond `errors` is a fault. Parsers that return None, or a condition that means nothing, for what they
do not understand have no errors at all.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import struct
import uuid
import zlib
import zoneinfo
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import types as T

from anabranch.cli.rows.local_time_zone import PythonTimeZone
from anabranch.deletion_vectors import vector_descriptors
from anabranch.deletion_vectors.bitmap_format import encode_bitmap
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.errors.base import DeltaError
from anabranch.log.checksum import VersionChecksum, decode_checksum, encode_checksum
from anabranch.log.last_checkpoint import LastCheckpoint, encode_last_checkpoint, read_last_checkpoint
from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.generation_expressions import derivation_of
from anabranch.predicates.sql_lexer import tokenize
from anabranch.predicates.stored_sql import read_stored_sql
from anabranch.protocol.actions import CommitInfo, DeletionVectorDescriptor, DomainMetadata, RemoveFile, SetTransaction
from anabranch.protocol.actions_json import encode_action, encode_actions, parse_actions
from anabranch.protocol.data_paths import decode_path, parse_partition_path, relative_path
from anabranch.protocol.log_paths import LAST_CHECKPOINT_PATH, parse_log_path
from anabranch.protocol.partition_values import parse_column
from anabranch.protocol.properties import validated
from anabranch.protocol.property_table import PROPERTIES
from anabranch.protocol.value_text import parse_interval_ms
from anabranch.schema.serialization import parse_schema
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.sql.own.own_statement import OwnGrammar
from anabranch.sql.own.quoted_versions import with_versions_quoted
from anabranch.storage.memory_store import MemoryStore
from anabranch.streaming.schema_log import TrackedMetadata
from anabranch.streaming.source_offset import parse_offset
from anabranch.transactions.rows.row_map import MOVED_TO_TAG, checked_moves
from log.log_in_memory import PROTOCOL, SCHEMA, CountedUuids, LogInMemory, StillClock, add, metadata, remove

TABLE = "/tables/t"
FILE_ID = uuid.UUID(int=7)
COLUMNS = T.StructType([T.StructField("id", T.LongType()), T.StructField("day", T.StringType())])
SAMPLES = Path(__file__).parents[1] / "predicates" / "catalyst_samples" / "spark-4.3.0.json"
PARTITION_TYPES: list[T.DataType] = [
    *(T.StringType(), T.BooleanType(), T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType()),
    *(T.DoubleType(), T.DecimalType(10, 2), T.DateType(), T.TimestampType(), T.TimestampNTZType(), T.BinaryType()),
]
STATISTICS = (
    '{"numRecords":3,"tightBounds":true,"minValues":{"id":1,"day":"a"},"maxValues":{"id":9,"day":"z"},'
    '"nullCount":{"id":0,"day":0}}'
)


@dataclasses.dataclass(frozen=True)
class Parser:
    name: str
    parse: Callable[[bytes], object]
    inputs: Sequence[bytes]
    errors: tuple[type[Exception], ...] = (DeltaError,)
    share: float = 1.0
    """Of the inputs of a parser: one that reads a whole log takes fewer."""


def text(data: bytes) -> str:
    """What text a parser may get: JSON and UTF-8 files hold any characters, but no half of a surrogate pair."""
    return data.decode("utf-8", "replace")


def stored_log(policy: str) -> LogInMemory:
    """Three versions with all kinds of actions, a checkpoint of the last, its hint and its checksum."""
    log = LogInMemory.created(delta__checkpointPolicy=policy)
    actions = [add("day=monday/a", stats=STATISTICS), add("day=monday/b", vector="x", stats=None)]
    log.commit(*actions, SetTransaction(app_id="s", version=3, last_updated=5))
    log.commit(remove("day=monday/a"), DomainMetadata(domain="d", configuration="{}", removed=False))
    write_checkpoint(log.store, log.snapshots().latest(), clock=log.clock, new_uuid=CountedUuids())
    return log


def read_log(files: dict[str, bytes], path: str, data: bytes) -> None:
    """The newest version of a log in which one file has other bytes, with everything that queries read of it."""
    store = MemoryStore(clock=StillClock())
    for name, content in (files | {path: data}).items():
        store.put(name, content)
    snapshot = SnapshotCache(store, StillClock()).latest()
    _ = snapshot.schema, snapshot.physical_schema, snapshot.partition_columns, snapshot.tombstones()
    snapshot.files.to_actions()
    snapshot.skipping_columns.bounds([("id",), ("day",)])
    snapshot.skipping_columns.num_records()


def log_parsers() -> list[Parser]:
    """The files of a log, one of which is changed at a time, before it is read from that file on."""
    parsers = []
    for policy in ("classic", "v2"):
        log = stored_log(policy)
        files = {file.path: log.store.read(file.path) for file in log.store.list_tree("_delta_log")}
        commits = sorted(path for path in files if path.removesuffix(".json")[-20:].isdigit())
        checkpoints = [path for path in files if ".checkpoint." in path or "_sidecars" in path]
        only_commits = {path: files[path] for path in commits}
        without_commits = {path: files[path] for path in files if path not in commits[:-1]}
        for path in commits if policy == "classic" else []:
            name = f"a log's commit {commits.index(path)}"
            parsers.append(Parser(name, functools.partial(read_log, only_commits, path), [files[path]], share=0.02))
        for path in checkpoints:
            kind = "sidecar" if "_sidecars" in path else f"checkpoint, {path.rpartition('.')[2]}"
            parse = functools.partial(read_log, without_commits, path)
            parsers.append(Parser(f"a log's {policy} {kind}", parse, [files[path]], share=0.02))
    return parsers


def read_vector(data: bytes) -> None:
    store = MemoryStore()
    store.put(f"deletion_vector_{FILE_ID}.bin", b"\x01" + data)
    descriptor = DeletionVectorDescriptor(
        storage_type="u",
        path_or_inline_dv=vector_descriptors.encode_base85(FILE_ID.bytes),
        offset=1,
        size_in_bytes=max(0, len(data) - 8),
        cardinality=3,
    )
    load_vector(store, descriptor, num_rows=100_000)


def read_bitmap(data: bytes) -> None:
    """The same behind a right length and checksum."""
    read_vector(struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data)))


def read_inline_vector(data: bytes) -> None:
    encoded = text(data)
    descriptor = DeletionVectorDescriptor(
        storage_type="i", path_or_inline_dv=encoded, size_in_bytes=max(0, len(encoded) * 4 // 5 - 2), cardinality=3
    )
    load_vector(MemoryStore(), descriptor, num_rows=100_000)


def read_hint(data: bytes) -> None:
    store = MemoryStore()
    store.put(LAST_CHECKPOINT_PATH, data)
    read_last_checkpoint(store)


def read_actions(data: bytes) -> None:
    for action in parse_actions(data):
        encode_action(action)


def read_partition_values(data: bytes) -> None:
    for data_type in PARTITION_TYPES:
        try:
            parse_column(pa.array([text(data)]), data_type)
        except DeltaError:
            continue


def read_stored_statistics(data: bytes) -> None:
    log = LogInMemory.created()
    log.commit(add("day=monday/a", stats=text(data)), add("day=monday/b", stats=STATISTICS))
    columns = log.snapshots().latest().skipping_columns
    columns.bounds([("id",), ("day",)])
    columns.num_records()


def read_properties(data: bytes) -> None:
    for name in PROPERTIES:
        try:
            validated({name: text(data)})
        except DeltaError:
            continue


def read_paths(data: bytes) -> None:
    for read in (functools.partial(decode_path, table_root=TABLE), functools.partial(relative_path, table_root=TABLE)):
        try:
            read(text(data))
        except DeltaError:
            continue
    parse_log_path(text(data))


def read_moves(data: bytes) -> None:
    source = RemoveFile(path="a", data_change=True, tags={MOVED_TO_TAG: text(data)})
    moves = checked_moves([(source, 9)], [add("b")], [BitMap64()])
    if moves is not None:
        moves.moved(BitMap64([0, 8]), source="a", hidden=BitMap64())


GRAMMAR = OwnGrammar.beside(lambda statement: False)
STATEMENTS = [
    *(
        b"OPTIMIZE t WHERE day = 'a' ZORDER BY (id, day)",
        b"VACUUM delta.`/t` RETAIN 0.5 HOURS DRY RUN",
        b"DESCRIBE HISTORY a.b.c LIMIT 3",
    ),
    *(
        b"RESTORE TABLE t TO VERSION AS OF 3",
        b"CREATE TABLE a SHALLOW CLONE b TIMESTAMP AS OF '2026-01-01' LOCATION '/x'",
    ),
    *(b"ALTER TABLE t ADD CONSTRAINT c CHECK (id > 0)", b"ALTER TABLE t DROP FEATURE deletionVectors TRUNCATE HISTORY"),
    *(
        b"CONVERT TO DELTA parquet.`/x` PARTITIONED BY (day STRING)",
        b"INSERT INTO t BY NAME REPLACE WHERE id = 3 SELECT 1 AS id",
    ),
    *(
        b"MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        b"SELECT * FROM t@v3 WHERE `a``b` = 'x''y'",
    ),
    *(
        b"BEGIN TRANSACTION",
        b"REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
        b"GENERATE symlink_format_manifest FOR TABLE t",
    ),
]
EXPRESSIONS = [
    b"id > 0 AND day IN ('a', 'b')",
    b"CAST(id AS DATE) <=> DATE '2026-01-01'",
    b"CASE WHEN id IS NULL THEN 1 ELSE -2.5e3 END",
]
SCHEMA_OF_ALL = (
    '{"type":"struct","fields":[{"name":"a","type":{"type":"array","elementType":"decimal(10,2)","containsNull":true},'
    '"nullable":true,"metadata":{"delta.columnMapping.id":1}},{"name":"m","type":{"type":"map","keyType":"string",'
    '"valueType":{"type":"struct","fields":[]},"valueContainsNull":false},"nullable":false,"metadata":{}}]}'
)
OFFSET = b'{"sourceVersion":3,"reservoirId":"t","reservoirVersion":5,"index":-1,"isStartingVersion":true}'
CHECKSUM = VersionChecksum(
    table_size_bytes=9,
    num_files=1,
    num_metadata=1,
    num_protocol=1,
    metadata=metadata(),
    protocol=PROTOCOL,
    txn_id="x",
    set_transactions=(SetTransaction(app_id="s", version=3, last_updated=5),),
    domain_metadata=(DomainMetadata(domain="d", configuration="{}", removed=False),),
)
ENTRY = {
    "tableId": "t",
    "deltaCommitVersion": 3,
    "dataSchemaJson": SCHEMA,
    "partitionSchemaJson": SCHEMA,
    "sourceMetadataPath": "/x",
    "tableConfigurations": {"a": "b"},
    "protocolJson": '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}',
}


def parsers() -> list[Parser]:
    """All of them."""
    bitmaps = [encode_bitmap(BitMap64(rows)) for rows in ([1, 2, 99_999], range(5000, 5003), [5, 70_000, 99_998])]
    framed = [struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data)) for data in bitmaps]
    inline = [vector_descriptors.encode_base85(data + bytes(-len(data) % 4)).encode() for data in bitmaps[:1]]
    samples = json.loads(SAMPLES.read_text("utf-8"))
    catalyst = [json.dumps(sample.get("optimized", sample["analyzed"])).encode() for sample in samples]
    actions = [
        encode_actions([PROTOCOL, metadata(), CommitInfo(operation="WRITE")]),
        stored_log("classic").store.read("_delta_log/00000000000000000001.json"),
    ]

    def zones(name: str) -> PythonTimeZone:
        return PythonTimeZone(zoneinfo.ZoneInfo(name))

    return [
        Parser("actions of a commit", read_actions, actions),
        Parser("_last_checkpoint", read_hint, [encode_last_checkpoint(LastCheckpoint(version=3, size=9, parts=2))], ()),
        Parser("checksum (.crc)", decode_checksum, [encode_checksum(CHECKSUM)], (ValueError,)),
        Parser("file of deletion vectors", read_vector, framed),
        Parser("bitmap of a deletion vector", read_bitmap, bitmaps),
        Parser("inline deletion vector", read_inline_vector, inline),
        Parser("schema string", lambda data: parse_schema(text(data)), [SCHEMA.encode(), SCHEMA_OF_ALL.encode()]),
        Parser("partition values", read_partition_values, [b"2026-01-01 00:00:00.5", b"-1.5E3", b"true", b"a"], ()),
        Parser("statistics", read_stored_statistics, [STATISTICS.encode()], share=0.1),
        Parser("table properties", read_properties, [b"interval 7 days", b"true", b"32", b"id,a.b"], ()),
        Parser(
            "intervals", lambda data: parse_interval_ms(text(data)), [b"interval 1 week 3.5 seconds"], (ValueError,)
        ),
        Parser(
            "paths",
            read_paths,
            [b"day=a%20b/part-0.parquet", b"s3://b/x", b"00000000000000000003.checkpoint.parquet"],
            (),
        ),
        Parser(
            "partition folders",
            lambda data: parse_partition_path(text(data)),
            [b"a=1/b=__HIVE_DEFAULT_PARTITION__/c.parquet"],
            (DeltaError, ValueError),
        ),
        Parser("moves of an OPTIMIZE", read_moves, [b'[["b",0,4],["b",4,5]]'], ()),
        Parser("stored SQL", lambda data: read_stored_sql(text(data), COLUMNS, table=TABLE, owner="x"), EXPRESSIONS),
        Parser(
            "generation expressions",
            lambda data: derivation_of(text(data), T.DateType(), COLUMNS),
            [b"CAST(id AS DATE)", b"date_format(id, 'yyyy-MM')"],
            (DeltaError,),
        ),
        Parser("tokens of SQL", lambda data: tokenize(text(data)), [*STATEMENTS, *EXPRESSIONS]),
        Parser("own statements", lambda data: GRAMMAR.statement_of(text(data)), STATEMENTS),
        Parser("versions behind names", lambda data: with_versions_quoted(text(data)), STATEMENTS, ()),
        Parser("conditions of the planner", lambda data: from_catalyst(text(data), zones=zones), catalyst, ()),
        Parser("offset of a stream", lambda data: parse_offset(text(data), table_id="t", table=TABLE), [OFFSET]),
        Parser(
            "schema log of a stream",
            lambda data: TrackedMetadata.from_json(text(data)),
            [json.dumps(ENTRY).encode()],
            (ValueError, TypeError, DeltaError),
        ),
        *log_parsers(),
    ]
