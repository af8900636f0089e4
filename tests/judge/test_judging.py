"""The program, what it reads of a log, and that it needs nothing of ours."""

from __future__ import annotations

import ast
import datetime
import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

import anabranch_judge
from anabranch.deletion_vectors.bitmap_format import encode_bitmap
from anabranch.deletion_vectors.vector_descriptors import encode_base85
from anabranch_judge.__main__ import main
from anabranch_judge.errors import JudgeError
from anabranch_judge.hidden_rows import hidden_positions
from anabranch_judge.recorded_history import read_history
from anabranch_judge.table_log import TableLog
from judge.planted_table import PlantedTable, increase, insert

MODULES = sorted(Path(anabranch_judge.__file__).parent.glob("*.py"))


def test_the_judge_imports_python_and_pyarrow_alone() -> None:
    names = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    packages = {name.split(".")[0] for name in names}
    assert packages - sys.stdlib_module_names == {"anabranch_judge", "pyarrow"}


def vector_of(positions: list[int]) -> dict[str, object]:
    data = encode_bitmap(BitMap64(positions))
    padded = data + bytes(-len(data) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": encode_base85(padded),
        "sizeInBytes": len(data),
        "cardinality": len(set(positions)),
    }


@given(st.lists(st.integers(0, 2**34) | st.integers(0, 70_000), max_size=300), st.integers(0, 9000))
def test_vectors_hide_what_they_say(positions: list[int], run: int) -> None:
    every = [*positions, *range(50_000, 50_000 + run)]
    assert hidden_positions(vector_of(every), lambda path: b"") == frozenset(every)


def test_a_damaged_vector_is_an_error() -> None:
    with pytest.raises(JudgeError, match="hides 2 rows"):
        hidden_positions(vector_of([1, 2]) | {"cardinality": 3}, lambda path: b"")
    with pytest.raises(JudgeError, match="damaged"):
        hidden_positions(vector_of([1, 2]) | {"sizeInBytes": 20}, lambda path: b"")


def test_vectors_and_partitions_of_a_log(tmp_path: Path) -> None:
    table = PlantedTable(tmp_path / "t", {1: 100, 2: 200})
    table.rewrite({1: 100, 2: 200, 3: 300})
    table.commit([table.add({1: 100, 2: 200, 3: 300}, path=table.files[0], deletionVector=vector_of([1]))])
    log = TableLog(str(table.path))
    assert log.versions[1].difference.added == {(("k", 3), ("v", 300)): 1}
    assert log.versions[2].difference.removed == {(("k", 2), ("v", 200)): 1}


def test_a_table_of_delta_rs(tmp_path: Path) -> None:
    """Partitions, types, and rows that a MERGE writes to new files."""
    path = str(tmp_path / "t")
    rows = pa.table({"k": [1, 2], "part": ["a b", None], "day": [datetime.date(2026, 1, day) for day in (1, 2)]})
    write_deltalake(path, rows, partition_by=["part"])
    DeltaTable(path).update(predicate="k = 1", updates={"day": "DATE '2026-02-01'"})
    versions = TableLog(path).versions
    assert versions[0].rows.keys() == {
        (("day", "2026-01-01"), ("k", 1), ("part", "a b")),
        (("day", "2026-01-02"), ("k", 2)),
    }
    assert versions[1].difference.added.keys() == {(("day", "2026-02-01"), ("k", 1), ("part", "a b"))}


def test_a_log_without_its_start_cannot_be_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = PlantedTable(tmp_path / "t", {1: 1})
    table.rewrite({1: 2})
    (table.path / "_delta_log" / f"{0:020d}.json").unlink()
    assert main([str(table.path), str(table.write_history()), "--key", "k"]) == 2
    assert "commits are missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        '{"event": "end", "statement": "w9", "outcome": "committed"}',
        '{"event": "begin", "statement": "w1"}',
        '{"event": "end", "statement": "w1", "outcome": "perhaps"}',
        '{"event": "read", "statement": "w1"}',
        '{"event": "change", "statement": "w1", "changes": [{"do": "update"}]}',
        '{"event": "change", "statement": "w1", "changes": [{"do": "truncate"}]}',
        '{"event": "sleep", "statement": "w1"}',
        "[1]",
    ],
)
def test_a_line_of_another_format_is_an_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"event": "begin", "statement": "w1"}\n' + line)
    with pytest.raises(JudgeError, match="line 2"):
        read_history([path])


def test_a_line_that_a_killed_writer_did_not_finish_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"event": "begin", "statement": "w1"}\n{"event": "en')
    assert [statement.outcome for statement in read_history([path]).statements] == ["unknown"]


def test_the_program_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = PlantedTable(tmp_path / "t", {1: 100})
    table.rewrite({1: 105})
    table.record("w1-1", increase(1, 5), version=1)
    arguments = [str(table.path), str(table.write_history()), "--key", "k"]
    assert main([*arguments, "--level", "Serializable"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Versions 1 to 1; statements: 1 committed, 0 conflict, 0 unknown.",
        "No fault.",
        "Serializable: yes",
        "WriteSerializable: yes",
        "SnapshotIsolation: yes",
    ]
    table.record("w1-2", insert(2, 2))
    table.write_history()
    assert main([*arguments, "--json"]) == 1
    [fault] = json.loads(capsys.readouterr().out)["faults"]
    assert fault["kind"] == "lost write"
