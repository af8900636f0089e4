"""The judge finds what is planted, and nothing in tables that are as they should be."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from soak.judge import Begun, TableJudge
from soak.model import Row, Statement

ROWS: list[Row] = [{"id": key, "n": key * 10} for key in range(1, 5)]
INSERT: Statement = {"kind": "insert", "rows": ROWS}
UPDATE: Statement = {"kind": "update", "where": ["n", 0, [10, 20]], "set": {"n": ["n", 1]}}
DELETE: Statement = {"kind": "delete", "where": ["n", 0, [10]]}
NOBODY = {
    "type": "ConcurrentAppendException",
    "condition": "DELTA_CONCURRENT_APPEND",
    "operation": "WRITE",
    "message": "",
}


class Played:
    """A table of which each version is written whole, and a judge that looks on."""

    def __init__(self, folder: Path, kind: str = "rows") -> None:
        self.path, self.judge = folder / kind, TableJudge(folder / kind, kind)
        (self.path / "_delta_log").mkdir(parents=True)
        self.live: list[str] = []
        self.version = -1
        self.count = 0
        self.configuration: dict[str, str] = {}
        self.commit({"kind": "create", "columns": ["id", "n"], "rows": []}, [])

    def begin(self, statement: Statement, *, newest: int | None = None) -> str:
        self.count += 1
        name = f"w1-{self.count}"
        self.judge.begin(Begun(name=name, statement=statement, newest=self.version if newest is None else newest))
        return name

    def end(self, name: str, **outcome: Any) -> None:
        self.judge.end(name, {"ends": name, "newest": self.version, "seconds": 0.1, **outcome})

    def commit_with_retries(
        self,
        name: str,
        statement: Statement,
        rows: list[Row],
        *,
        domains: list[dict[str, Any]] | None = None,
        **info: Any,
    ) -> None:
        """A commit that leaves `rows`, independent of the statement."""
        columns = list(rows[0]) if rows else ["id", "n"]
        fields = [{"name": it, "type": "long", "nullable": True, "metadata": {}} for it in columns]
        metadata = {
            "id": "t",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": self.configuration,
        }
        info_of_commit = {
            "operation": statement["kind"].upper(),
            "readVersion": self.version,
            "userMetadata": name,
            **info,
        }
        actions = [
            {"commitInfo": info_of_commit},
            {"metaData": metadata},
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}},
        ]
        actions += [{"domainMetadata": domain} for domain in domains or []]
        actions += [{"remove": {"path": path, "dataChange": True}} for path in self.live]
        self.live = []
        if rows:
            self.live = [f"{uuid.uuid4()}.parquet"]
            pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), self.path / self.live[0])
            size = (self.path / self.live[0]).stat().st_size
            actions.append({"add": {"path": self.live[0], "size": size, "partitionValues": {}, "dataChange": True}})
        self.version += 1
        lines = "".join(json.dumps(action) + "\n" for action in actions)
        (self.path / "_delta_log" / f"{self.version:020d}.json").write_text(lines)

    def commit(self, statement: Statement, rows: list[Row], **info: Any) -> str:
        """A statement from its beginning to its end."""
        name = self.begin(statement)
        self.commit_with_retries(name, statement, rows, **info)
        self.end(name)
        return name

    @property
    def problems(self) -> list[str]:
        return [*self.judge.follow(self.version), *self.judge.judge_ended(final=True)]


def changed(**values: int) -> list[Row]:
    """The rows of `ROWS`, with other values of `n` by id (`_1=11`)."""
    return [{**row, "n": values.get(f"_{row['id']}", row["n"])} for row in ROWS]


def read(rows: list[Row]) -> dict[str, Any]:
    return {"columns": ["id", "n"], "rows": [list(row.values()) for row in rows]}


def sound(played: Played) -> None:
    played.commit(INSERT, ROWS)
    played.end(played.begin({"kind": "read", "version": None}), **read(ROWS))
    played.commit(UPDATE, changed(_1=11, _2=21))
    refused = played.begin(DELETE)
    played.commit({"kind": "restore", "version": 1}, ROWS)
    played.end(refused, error={**NOBODY, "version": 3, "operation": "RESTORE"})
    played.end(played.begin({"kind": "read", "version": 2}), **read(changed(_1=11, _2=21)))


def lost_row(played: Played) -> None:
    played.commit(INSERT, ROWS[1:])


def lost_update(played: Played) -> None:
    played.commit(INSERT, ROWS)
    played.commit(UPDATE, changed(_1=11))


def acknowledged_for_nothing(played: Played) -> None:
    played.end(played.begin(INSERT))


def refused_and_landed(played: Played) -> None:
    name = played.begin(INSERT)
    played.commit_with_retries(name, INSERT, ROWS)
    played.end(name, error={**NOBODY, "version": 1, "operation": "INSERT"})


def landed_twice(played: Played) -> None:
    played.commit(INSERT, ROWS)
    name = played.commit(UPDATE, changed(_1=11, _2=21))
    played.commit_with_retries(name, UPDATE, changed(_1=11, _2=21))


def landed_after_its_end(played: Played) -> None:
    name = played.begin(INSERT)
    played.end(name)
    played.commit_with_retries(name, INSERT, ROWS)


def compaction_that_changes_rows(played: Played) -> None:
    played.commit(INSERT, ROWS)
    played.commit({"kind": "optimize", "zorder": []}, ROWS[:3])


def read_of_no_version(played: Played) -> None:
    played.commit(INSERT, ROWS)
    played.end(played.begin({"kind": "read", "version": None}), **read(ROWS[:1]))


def row_that_breaks_a_rule(played: Played) -> None:
    played.commit(INSERT, ROWS)
    played.configuration = {"delta.constraints.low": "n >= 0"}
    played.commit({"kind": "add_constraint", "name": "low", "column": "n", "least": 0}, ROWS)
    low = {"kind": "insert", "rows": [{"id": 9, "n": -1}]}
    played.commit(low, [*ROWS, {"id": 9, "n": -1}])


def clustering_by_a_column_that_is_gone(played: Played) -> None:
    domain = {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": [["c0"]]}),
        "removed": False,
    }
    played.commit(INSERT, ROWS, domains=[domain])


def error_without_a_name(played: Played) -> None:
    played.end(played.begin(INSERT), error={"type": "Py4JJavaError", "message": "at java.base/…"})


def conflict_with_nobody(played: Played) -> None:
    played.end(played.begin(DELETE), error={**NOBODY, "version": None})


def conflict_with_what_was_there_before(played: Played) -> None:
    played.end(played.begin(DELETE), error={**NOBODY, "version": 0})


def refusal_that_is_not_true(played: Played) -> None:
    error = {"type": "X", "condition": "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "message": ""}
    played.end(played.begin(INSERT), error=error)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (sound, None),
        (lost_row, "1 rows are missing"),
        (lost_update, "1 should not be there"),
        (acknowledged_for_nothing, "is not in the log"),
        (refused_and_landed, "was refused, and landed as [1]"),
        (landed_twice, "landed more than once: [2, 3]"),
        (landed_after_its_end, "landed as [1], though it ran from 0 to 0"),
        (compaction_that_changes_rows, "1 rows are missing"),
        (read_of_no_version, "those of no version"),
        (row_that_breaks_a_rule, "does not fit the version before"),
        (clustering_by_a_column_that_is_gone, "is clustered by"),
        (error_without_a_name, "an error without a name"),
        (conflict_with_nobody, "a conflict with nobody"),
        (conflict_with_what_was_there_before, "a conflict with a commit that was there before"),
        (refusal_that_is_not_true, "it fits every version there was"),
    ],
)
def test_what_is_planted_is_found(tmp_path: Path, plant: Callable[[Played], None], expected: str | None) -> None:
    played = Played(tmp_path)
    plant(played)
    problems = played.problems
    assert (problems == []) if expected is None else any(expected in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("kind", "blind", "sound"),
    [
        ("described_weakly", True, True),
        ("described_weakly", False, False),
        ("rows", True, False),
    ],
)
def test_blind_appends_may_follow_a_statement_that_has_not_read_them(
    tmp_path: Path, kind: str, blind: bool, sound: bool
) -> None:
    """They may under WriteSerializable; under Serializable, and where the append read the table, that is a lost update."""
    played = Played(tmp_path, kind)
    update = played.begin(UPDATE)
    first: Statement = {"kind": "insert", "rows": ROWS[:1]}
    played.commit(first, ROWS[:1], isBlindAppend=blind)
    played.commit_with_retries(update, UPDATE, ROWS[:1], readVersion=0)
    played.end(update)
    assert (played.problems == []) is sound
