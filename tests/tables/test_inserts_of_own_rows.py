"""INSERT … SELECT from the very table: which writers of rows it loses to, and that what lands is right."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import Row, SparkSession

from anabranch.commands.table_access import TableRef
from anabranch.errors.commits import ConflictReason
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
)
from anabranch.spark.native import plan_joins, plan_reading
from tables.made_tables import numbered_table
from tables.races import beaten

pytestmark = [pytest.mark.spark, pytest.mark.long]

SCHEMA = "id long, n long, part long, s struct<a: long, b: long>, words array<string>"


@pytest.fixture
def target(native: SparkSession, path: str) -> str:
    """Ten rows in one file. `part` is `id % 2`, `n` is `id % 5`, and row 0 has no `n`."""
    rows = [(i, i % 5 if i else None, i % 2, (i, i + 1), [f"w{i}", "w"]) for i in range(10)]
    native.createDataFrame(rows, SCHEMA).coalesce(1).write.format("delta").save(path)
    native.sql("CREATE OR REPLACE TEMP VIEW names AS SELECT id, CONCAT('row ', id) AS name FROM RANGE(5)")
    return f"delta.`{path}`"


@pytest.fixture(autouse=True)
def no_view_left(native: SparkSession) -> Iterator[None]:
    yield
    native.catalog.dropTempView("names")


def table(native: SparkSession, name: str, version: int | None = None) -> Counter[Row]:
    at = "" if version is None else f" VERSION AS OF {version}"
    return Counter(Row(*(str(value) for value in row)) for row in native.sql(f"SELECT * FROM {name}{at}").collect())


def newest(native: SparkSession, name: str) -> int:
    return int(native.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0].version)


def is_right(native: SparkSession, query: str, name: str) -> bool:
    """Whether the newest commit added the rows that its query gives, run on the version before it."""
    last = newest(native, name)
    before = table(native, name, last - 1)
    query_then = query.format(t=f"{name} VERSION AS OF {last - 1}")
    expected = Counter(Row(*(str(value) for value in row)) for row in native.sql(query_then).collect())
    return before + expected == table(native, name)


COLUMNS = "id + 1000 AS id, n, part, s, words"
BY_ROWS = {
    "a filter": f"SELECT {COLUMNS} FROM {{t}} WHERE n = 3",
    "a filter within a query": f"SELECT {COLUMNS} FROM (SELECT * FROM {{t}} WHERE part >= 0) WHERE n = 3 AND id > 2",
    "a function": f"SELECT {COLUMNS} FROM {{t}} WHERE abs(n) = 3",
    "a field and an array": f"SELECT {COLUMNS} FROM {{t}} WHERE s.a % 5 = 3 AND array_contains(words, 'w')",
    "a join": f"SELECT {COLUMNS} FROM {{t}} JOIN (SELECT id AS i, name FROM names) ON id = i WHERE n = 3",
    "a join with itself": (
        "SELECT a.id + 1000 AS id, a.n, b.part, b.s, a.words FROM {t} a JOIN {t} b ON a.id = b.id "
        "WHERE a.n = 3 AND b.s.a = a.id AND b.n = 3"
    ),
    "rows of two": f"SELECT {COLUMNS} FROM {{t}} WHERE n = 3 UNION ALL SELECT {COLUMNS} FROM {{t}} WHERE id = 3",
    "a subquery on another table": f"SELECT {COLUMNS} FROM {{t}} WHERE n = 3 AND id IN (SELECT id FROM names)",
    "the clock": f"SELECT {COLUMNS} FROM {{t}} WHERE n = 3 AND current_timestamp() > TIMESTAMP '2000-01-01'",
    "an aggregate": "SELECT max(id) + 1000 AS id, 0L, 0L, NULL, NULL FROM {t} WHERE n = 3",
    "the first row": f"SELECT {COLUMNS} FROM {{t}} WHERE n = 3 ORDER BY id LIMIT 1",
    "distinct rows": f"SELECT DISTINCT {COLUMNS} FROM {{t}} WHERE n = 3",
    "a window": "SELECT row_number() OVER (ORDER BY id) AS id, n, part, s, words FROM {t} WHERE n = 3",
    "an IN of many": f"SELECT {COLUMNS} FROM {{t}} WHERE id IN ({', '.join(map(str, range(3, 70, 5)))})",
    "a left join": f"SELECT {COLUMNS} FROM {{t}} LEFT JOIN (SELECT id AS i FROM names) ON i > id WHERE n = 3",
    "a comma join": (
        "SELECT id + x AS id, n, part, s, words FROM {t}, VALUES (1000), (2000) AS v(x) WHERE n = 3 AND id + x < 1100"
    ),
    "a cross join": f"SELECT {COLUMNS} FROM (SELECT id AS i FROM names) CROSS JOIN {{t}} WHERE n = 3",
    "an aggregate of a join": (
        "SELECT max(t.id + names.id) + 1000 AS id, 0L, 0L, NULL, NULL FROM {t} t JOIN names WHERE t.n = 3"
    ),
}
BY_FILES = {
    "no filter": f"SELECT {COLUMNS} FROM {{t}}",
    "a filter above an aggregate": "SELECT m AS id, 0L, 0L, NULL, NULL FROM (SELECT max(id) m FROM {t}) WHERE m > 20",
    "an outer join": f"SELECT {COLUMNS} FROM names x LEFT JOIN {{t}} USING (id) WHERE n IS NULL",
    "a subquery on the table": f"SELECT {COLUMNS} FROM {{t}} WHERE n = 3 AND id < (SELECT max(id) FROM {{t}})",
}
OTHER_ROW = "UPDATE {t} SET part = 7 WHERE id = 1"
OTHER_ROW_GONE = "DELETE FROM {t} WHERE id = 1"
INTO_VIEW = {
    "an update into": ("UPDATE {t} SET n = 3, s.a = 3, id = 3 WHERE id = 1", ConcurrentAppendException),
    "an update of": ("UPDATE {t} SET part = 7 WHERE id = 3", ConcurrentDeleteReadException),
    "a delete of": ("DELETE FROM {t} WHERE id = 3", ConcurrentDeleteReadException),
}


@pytest.mark.parametrize("shape", BY_ROWS)
def test_an_insert_of_own_rows_does_not_lose_to_a_writer_of_other_rows(
    native: SparkSession, target: str, shape: str
) -> None:
    """Bug B14. Covers race 20's other side: the winner changes a row of the same file that the query does not read."""
    query, winner = BY_ROWS[shape], OTHER_ROW_GONE if "join" in shape else OTHER_ROW
    beaten(native, f"INSERT INTO {target} {query.format(t=target)}", winner.format(t=target))
    assert is_right(native, query, target)


LOSING = [
    (shape, winner) for shape in ("a filter", "a field and an array", "a join with itself") for winner in INTO_VIEW
]
LOSING += [("a left join", "an update into"), ("a comma join", "a delete of"), ("an aggregate", "an update into")]


@pytest.mark.parametrize(("shape", "winner"), LOSING)
def test_an_insert_of_own_rows_loses_to_a_writer_of_those_rows(
    native: SparkSession, target: str, shape: str, winner: str
) -> None:
    """Bug B14. Covers races 15, 16 and 20 for INSERT."""
    statement, error = INTO_VIEW[winner]
    with pytest.raises(DeltaConcurrentModificationException) as raised:
        beaten(native, f"INSERT INTO {target} {BY_ROWS[shape].format(t=target)}", statement.format(t=target))
    # Where several apply, the error names added rows first.
    assert isinstance(raised.value, (error, ConcurrentAppendException))
    assert raised.value.reason is ConflictReason.ROW_LEVEL_CHANGES
    assert "id = 3" in str(raised.value)


@pytest.mark.parametrize("shape", BY_FILES)
def test_an_insert_without_a_filter_of_rows_is_judged_by_files(native: SparkSession, target: str, shape: str) -> None:
    """Bug B14: a filter above other operators is not about single rows. Unknown means abort."""
    with pytest.raises(DeltaConcurrentModificationException):
        beaten(native, f"INSERT INTO {target} {BY_FILES[shape].format(t=target)}", OTHER_ROW.format(t=target))


def test_an_insert_of_own_rows_goes_on_behind_optimize(native: SparkSession, target: str) -> None:
    """Covers race 47 for INSERT: rows move, and none changes."""
    native.sql(f"INSERT INTO {target} VALUES (20, 3, 0, NULL, NULL)")
    query = BY_ROWS["a filter"]
    beaten(native, f"INSERT INTO {target} {query.format(t=target)}", f"OPTIMIZE {target}")
    assert is_right(native, query, target)


def test_a_random_condition_does_not_decide_what_counts(native: SparkSession, target: str) -> None:
    """Covers race 29 for INSERT: evaluated again it would differ, so it narrows nothing."""
    query = f"SELECT {COLUMNS} FROM {target} WHERE rand() < 2"
    with pytest.raises(DeltaConcurrentModificationException):
        beaten(native, f"INSERT INTO {target} {query}", OTHER_ROW.format(t=target))


def test_the_judge_finds_filters_that_are_not_of_the_rows_read(native: SparkSession, target: str) -> None:
    """A planted rule: a filter above other operators is taken for one of the rows below. It lets a wrong insert land."""

    def filters_sink(plan: Any, above: plan_reading.Above, joins: object) -> Iterator[tuple[Any, plan_reading.Above]]:
        filters = (*above.filters, plan.condition()) if plan.nodeName() == "Filter" else above.filters
        here = plan_reading.Above(filters=filters)
        if plan.children().isEmpty():
            yield plan, here
        for index in range(plan.children().size()):
            yield from filters_sink(plan.children().apply(index), here, joins)

    query, gone = BY_FILES["an outer join"], f"DELETE FROM {target} WHERE id = 4"
    with mock.patch.object(plan_reading, "_scans", filters_sink):
        beaten(native, f"INSERT INTO {target} {query.format(t=target)}", gone)
    assert not is_right(native, query, target)
    native.sql(f"RESTORE TABLE {target} TO VERSION AS OF 0")
    with pytest.raises(DeltaConcurrentModificationException):
        beaten(native, f"INSERT INTO {target} {query.format(t=target)}", gone)


# INSERT of rows whose keys the table lacks.

NEW = "id, 0L AS n, 0L AS part, NULL AS s, NULL AS words"
ABSENT = {
    "NOT EXISTS": f"SELECT {NEW} FROM {{o}} x WHERE NOT EXISTS (SELECT 1 FROM {{t}} y WHERE y.id = x.id AND n < 9)",
    "an anti-join": f"SELECT {NEW} FROM {{o}} LEFT ANTI JOIN {{t}} USING (id)",
    "NOT IN": f"SELECT {NEW} FROM {{o}} WHERE id NOT IN (SELECT id FROM {{t}} WHERE id >= 0)",
    "an outer join": "SELECT x.id, 0L, 0L, NULL, NULL FROM {o} x LEFT JOIN {t} y ON x.id = y.id WHERE y.id IS NULL",
}
OF_OTHERS = {
    "the first rows of a view": "(SELECT id * 3 AS id FROM names ORDER BY id LIMIT 5)",
    "groups": "(SELECT id, max(n) AS n FROM (SELECT id * 3 AS id, 1 AS n FROM names) GROUP BY id)",
    "VALUES": "(SELECT CAST(i AS BIGINT) AS id FROM VALUES (3), (9), (12), (15) AS v(i))",
    "a view": "(SELECT id * 3 AS id FROM names)",
    "a Delta table": "{other}",
}
"""Each has the keys 3 and 9, which the table has, and others, which it lacks."""


@pytest.fixture
def other(native: SparkSession, tmp_path: Path) -> str:
    """A Delta table with the keys 3, 9 and 12; another one is hidden by a vector."""
    path = str(tmp_path / "other")
    native.sql("SELECT id FROM VALUES (3L), (9L), (12L), (1L) AS v(id)").coalesce(1).write.format("delta").save(path)
    native.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    return f"delta.`{path}`"


SHAPES = [*((shape, "a Delta table") for shape in ABSENT), ("NOT EXISTS", "VALUES"), ("an anti-join", "a view")]
SHAPES += [("an anti-join", "the first rows of a view"), ("an anti-join", "groups")]


@pytest.mark.parametrize(("shape", "of"), SHAPES)
def test_an_insert_of_absent_keys_is_judged_by_these_keys(
    native: SparkSession, target: str, other: str, shape: str, of: str
) -> None:
    """Covers bug B73: any change of the table was in its way."""
    query = ABSENT[shape].format(t="{t}", o=OF_OTHERS[of].format(other=other))
    statement = f"INSERT INTO {target} {query.format(t=target)}"
    beaten(native, statement, OTHER_ROW.format(t=target))
    assert is_right(native, query, target)
    native.sql(f"RESTORE TABLE {target} TO VERSION AS OF 0")
    for winner in (
        "UPDATE {t} SET part = 7 WHERE id = 3",
        "DELETE FROM {t} WHERE id = 9",
        "UPDATE {t} SET id = 12, n = 4 WHERE id = 1",
    ):
        before = newest(native, target)
        with pytest.raises(DeltaConcurrentModificationException) as raised:
            beaten(native, statement, winner.format(t=target))
        assert raised.value.reason is ConflictReason.ROW_LEVEL_CHANGES
        assert newest(native, target) == before + 1
        native.sql(f"RESTORE TABLE {target} TO VERSION AS OF 0")


def test_two_inserts_of_absent_keys_put_each_key_in_once(native: SparkSession, target: str) -> None:
    """Covers bug B73: other keys land, the same key does not come twice."""

    def insert(*keys: int) -> str:
        values = ", ".join(f"({key}L)" for key in keys)
        return f"INSERT INTO {target} {ABSENT['NOT EXISTS'].format(t=target, o=f'(SELECT * FROM VALUES {values} AS v(id))')}"

    beaten(native, insert(20, 21), insert(30, 3))
    with pytest.raises(ConcurrentAppendException) as raised:
        beaten(native, insert(40, 41), insert(41, 42))
    assert "id = 41" in str(raised.value)
    assert native.table(target).where("id >= 20").count() == 5


def test_keys_that_may_differ_when_they_are_read_again_narrow_nothing(
    native: SparkSession, target: str, tmp_path: Path
) -> None:
    """Bug B73: of a Parquet folder, by a function of the user, of the table itself."""
    native.range(8, 12).write.parquet(str(tmp_path / "keys"))
    native.udf.register("same_key", lambda key: key, "long")
    for others in (
        f"parquet.`{tmp_path}/keys`",
        "(SELECT same_key(id) + 7 AS id FROM names)",
        f"(SELECT id + 5 AS id FROM {target} WHERE id = 5)",
    ):
        with pytest.raises(DeltaConcurrentModificationException):
            beaten(
                native,
                f"INSERT INTO {target} {ABSENT['an anti-join'].format(t=target, o=others)}",
                OTHER_ROW.format(t=target),
            )
        native.sql(f"RESTORE TABLE {target} TO VERSION AS OF 0")


def test_keys_that_cannot_be_read_again_are_in_conflict(native: SparkSession, target: str, other: str) -> None:
    """Bug B73: a VACUUM may have taken the files of the other table."""
    statement = f"INSERT INTO {target} {ABSENT['an anti-join'].format(t=target, o=other)}"
    with pytest.raises(ConcurrentAppendException) as raised:
        beaten(native, statement, OTHER_ROW.format(t=target), lambda: shutil.rmtree(other[7:-1]))
    assert raised.value.reason is not ConflictReason.ROW_LEVEL_CHANGES


def test_the_judge_finds_joins_with_what_changes_too(native: SparkSession, target: str) -> None:
    """A planted rule: of a table joined with itself only rows count to which one that was read belongs.

    Two new rows may belong to each other.
    """
    query = "SELECT a.id + 1000 AS id, a.n, a.part, a.s, a.words FROM {t} a JOIN {t} b ON a.n = b.n + 100 OR (a.id = 3 AND b.id = 3)"
    winner = f"UPDATE {target} SET n = IF(id = 1, 150, 50) WHERE id IN (1, 2)"
    with mock.patch.object(plan_joins.Joins, "_is_repeatable_plan", return_value=True):
        beaten(native, f"INSERT INTO {target} {query.format(t=target)}", winner)
    assert not is_right(native, query, target)
    native.sql(f"RESTORE TABLE {target} TO VERSION AS OF 0")
    with pytest.raises(DeltaConcurrentModificationException):
        beaten(native, f"INSERT INTO {target} {query.format(t=target)}", winner)


def test_an_insert_of_own_rows_loses_without_vectors(native: SparkSession, path: str) -> None:
    """Bug B14: where a table has no vectors, files decide for every statement."""
    table: TableRef = numbered_table(native, path, enableDeletionVectors="false")
    name = f"delta.`{table.path}`"
    with pytest.raises(DeltaConcurrentModificationException):
        beaten(
            native,
            f"INSERT INTO {name} SELECT id + 100, n, part FROM {name} WHERE n = 3",
            f"DELETE FROM {name} WHERE id = 1",
        )
