"""Vectors that Delta itself wrote are read as the rows it deleted, and ours are read by others."""

from __future__ import annotations

import json
import tarfile
import uuid
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from anabranch.deletion_vectors.vector_descriptors import inline_descriptor
from anabranch.deletion_vectors.vector_reading import load_vector, load_vectors, to_words
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor, RemoveFile
from anabranch.protocol.actions_json import encode_action, parse_actions
from anabranch.storage.memory_store import MemoryStore
from deletion_vectors.vector_files import encode_file

GOLDEN = Path(__file__).parents[3] / "shared" / "corpus" / "golden.tar.gz"
TABLES = ["dv-partitioned-with-checkpoint", "dv-with-columnmapping", "log-replay-dv-key-cases"]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not GOLDEN.exists():
        pytest.skip(f"the tables of other engines are not at {GOLDEN}")
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN) as archive:
        wanted = [
            member
            for member in archive.getmembers()
            if member.name.split("/")[1:2] and member.name.split("/")[1] in TABLES
        ]
        archive.extractall(folder, members=wanted, filter="data")
    return folder / "golden"


def store_of(table: Path) -> MemoryStore:
    store = MemoryStore()
    for path in table.rglob("*.bin"):
        store.put(str(path.relative_to(table)), path.read_bytes())
    return store


def vectors_in_log(table: Path) -> list[DeletionVectorDescriptor]:
    descriptors = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for action in parse_actions(commit.read_bytes()):
            if isinstance(action, AddFile) and action.deletion_vector is not None:
                descriptors[action.deletion_vector.unique_id] = action.deletion_vector
    return list(descriptors.values())


@pytest.mark.parametrize("name", TABLES)
def test_every_vector_of_the_golden_tables_loads(golden: Path, name: str) -> None:
    table = golden / name / "delta"
    descriptors = vectors_in_log(table)
    store = store_of(table)

    loaded = load_vectors(store, descriptors)
    assert descriptors
    assert [len(vector) for vector in loaded] == [descriptor.cardinality for descriptor in descriptors]
    assert loaded == [load_vector(store, descriptor) for descriptor in descriptors]


@pytest.mark.parametrize("name", ["log-replay-dv-key-cases"])
def test_live_rows_are_those_delta_expects(golden: Path, name: str) -> None:
    table = golden / name / "delta"
    live: dict[str, AddFile] = {}
    for commit in sorted((table / "_delta_log").glob("*.json")):
        actions = list(parse_actions(commit.read_bytes()))
        for action in actions:
            if isinstance(action, RemoveFile):
                live.pop(action.path, None)
        for action in actions:
            if isinstance(action, AddFile):
                live[action.path] = action

    store, rows = store_of(table), []
    for add in live.values():
        data = pq.read_table(table / add.path)
        if add.deletion_vector is not None:
            hidden = load_vector(store, add.deletion_vector, num_rows=len(data))
            words = to_words(hidden, num_rows=len(data))
            keep = [not (int(words[row >> 6]) >> (row & 63)) & 1 for row in range(len(data))]
            data = data.filter(pa.array(keep))
        rows += [tuple(row.values()) for row in data.to_pylist()]
    expected = pq.read_table(next((golden / name / "expected").rglob("*.parquet")).parent)
    assert sorted(rows) == sorted(tuple(row.values()) for row in expected.to_pylist())


@pytest.mark.parametrize("where", ["file", "inline"])
def test_delta_rs_reads_our_vectors(tmp_path: Path, where: str) -> None:
    """An independent reader hides just the rows that we hid."""
    table = tmp_path / "table"
    (table / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"n": pa.array(range(200_000), pa.int64())}), table / "part-0.parquet")
    hidden = BitMap64([0, 5, 65_535, 65_536, 199_999])
    hidden.add_range(70_000, 90_000)
    if where == "file":
        # Two vectors in the file, so that ours does not begin where files begin.
        written = encode_file([BitMap64([1]), hidden], file_id=uuid.UUID(int=7), prefix="ab")
        (table / written.path).parent.mkdir()
        (table / written.path).write_bytes(written.data)
        descriptor = written.descriptors[1]
    else:
        descriptor = inline_descriptor(hidden)
    add = AddFile(
        path="part-0.parquet",
        partition_values={},
        size=(table / "part-0.parquet").stat().st_size,
        modification_time=0,
        data_change=True,
        stats='{"numRecords":200000}',
        deletion_vector=descriptor,
    )
    field = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
    description = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"],
            }
        },
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": [field]}),
                "partitionColumns": [],
                "configuration": {"delta.enableDeletionVectors": "true"},
            }
        },
    ]
    lines = [json.dumps(action).encode() for action in description] + [encode_action(add)]
    (table / "_delta_log" / f"{0:020}.json").write_bytes(b"\n".join(lines))

    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(table))
    seen = pa.table(query.execute("SELECT n FROM t").read_all())["n"].to_pylist()
    assert sorted(seen) == [n for n in range(200_000) if n not in hidden]
