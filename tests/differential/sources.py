"""Each statement with each source and each target: what no list of programs written by hand has. Covers bug B100.

Not UPDATE and DELETE, whose only source is a subquery: the jar refuses them.
Every source goes into a plain table, and some sources into every other target. A statement is followed by the rows
that it left and by a RESTORE, so that each begins with the same table.
"""

from __future__ import annotations

import dataclasses

from differential.player import PYTHON
from differential.programs import Program, programs

_ROWS = "SELECT * FROM VALUES (2, 'two', 20), (3, 'three', 30), (7, 'seven', 70), (8, NULL, NULL) AS x(k, v, n)"
_TARGET_ROWS = "SELECT * FROM VALUES (1, 'one', 1), (2, 'b', 2), (3, 'c', 3), (4, NULL, 4) AS x(k, v, n)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Source:
    """Columns `k INT, v STRING, n INT`: the steps that make it, how a statement names it, and a CTE before the statement."""

    steps: tuple[str, ...] = ()
    name: str
    cte: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A table `t` with the same columns: the steps that make it, and how a statement names it."""

    steps: tuple[str, ...]
    name: str = "t"


def _table(format_name: str) -> Source:
    return Source(steps=(f"CREATE TABLE s USING {format_name} AS {_ROWS}",), name="s")


def _folder(format_name: str) -> Source:
    write = f'>>> spark.sql("{_ROWS}").write.format("{format_name}").save("{{path}}/s")'
    return Source(steps=(write,), name=f"{format_name}.`{{path}}/s`")


SOURCES = {
    "a Delta table": _table("delta"),
    "a Delta table by its path": _folder("delta"),
    "a Parquet table": _table("parquet"),
    "Parquet by its path": _folder("parquet"),
    "a CSV table": Source(
        steps=("CREATE TABLE s (k INT, v STRING, n INT) USING csv", f"INSERT INTO s {_ROWS}"),
        name="s",
    ),
    "JSON by its path": _folder("json"),
    "a JSON table": _table("json"),
    "an ORC table": _table("orc"),
    "ORC by its path": _folder("orc"),
    "a table by JDBC": Source(
        steps=(
            f'>>> spark.sql("{_ROWS}").write.jdbc("jdbc:derby:memory:{{schema}};create=true", "s")',
            "CREATE TEMPORARY VIEW s USING jdbc OPTIONS (url 'jdbc:derby:memory:{schema}', dbtable 's')",
        ),
        name="s",
    ),
    "a temporary view": Source(steps=(f"CREATE TEMPORARY VIEW s AS {_ROWS}",), name="s"),
    "a view of a Delta table": Source(
        steps=(
            f"CREATE TABLE source USING delta AS {_ROWS}",
            "CREATE VIEW v AS SELECT n, v, k FROM source WHERE k > 0",
        ),
        name="v",
    ),
    "a view of Parquet": Source(
        steps=(f"CREATE TABLE source USING parquet AS {_ROWS}", "CREATE VIEW v AS SELECT k, v, n FROM source"),
        name="v",
    ),
    "a CTE before the statement": Source(name="s", cte=f"WITH s AS ({_ROWS}) "),
    "a CTE in parentheses": Source(name=f"(WITH c AS ({_ROWS}) SELECT * FROM c)"),
    "VALUES": Source(name=f"({_ROWS})"),
    "a subquery with a window": Source(
        steps=(f"CREATE TABLE source USING parquet AS {_ROWS} UNION ALL SELECT 2, 'old', 1",),
        name="(SELECT k, v, n FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY n DESC) AS r FROM source) WHERE r = 1)",
    ),
    "a join with the target": Source(
        steps=(f"CREATE TABLE source USING parquet AS {_ROWS}",),
        name="(SELECT source.k, source.v, source.n FROM source LEFT JOIN t ON source.k = t.k)",
    ),
    "a table function": Source(
        name="(SELECT CAST(id AS INT) AS k, concat('r', id) AS v, CAST(10 * id AS INT) AS n FROM range(2, 9, 3))"
    ),
    "a frame of pandas": Source(
        steps=(
            ">>> import pandas",
            ">>> spark.createDataFrame(pandas.DataFrame({'k': [2, 3, 7], 'v': ['two', 'three', None], 'n': [20, 30, 70]}),"
            " 'k INT, v STRING, n INT').createOrReplaceTempView('s')",
        ),
        name="s",
    ),
    "rows of Python": Source(
        steps=(
            ">>> spark.createDataFrame([(2, 'two', 20), (7, None, None)], 'k INT, v STRING, n INT')"
            ".createOrReplaceTempView('s')",
        ),
        name="s",
    ),
}

_IN_ALL_TARGETS = ("Parquet by its path", "VALUES")


def _created(rest: str = "") -> tuple[str, ...]:
    return (f"CREATE TABLE t USING delta {rest} AS {_TARGET_ROWS}",)


PLAIN = "a table"
TARGETS = {
    PLAIN: Target(steps=_created()),
    "a partitioned table": Target(steps=_created("PARTITIONED BY (k)")),
    "a clustered table": Target(steps=_created("CLUSTER BY (k)")),
    "a mapped table": Target(steps=_created("TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")),
    "a table without vectors": Target(steps=_created("TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")),
    "a view": Target(steps=(*_created(), "CREATE TEMPORARY VIEW target AS SELECT * FROM t"), name="target"),
    "a path": Target(steps=_created("LOCATION '{path}/t'"), name="delta.`{path}/t`"),
    "a name of three parts": Target(steps=_created(), name="spark_catalog.{schema}.t"),
}

_REPLACE = "{cte}INSERT INTO {t} REPLACE WHERE k > 2 SELECT k, v, n FROM {s} AS s WHERE k > 2"
_MERGE = "{cte}MERGE INTO {t} AS t USING {s} AS s ON t.k = s.k"
STATEMENTS = (
    f"{_MERGE} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    f"{_MERGE} WHEN MATCHED THEN DELETE",
    f"{_MERGE} AND s.n > 10 WHEN MATCHED AND s.n > 20 THEN UPDATE SET v = s.v, n = t.n + s.n WHEN MATCHED THEN DELETE"
    " WHEN NOT MATCHED AND s.k > 5 THEN INSERT (k, v) VALUES (s.k, upper(s.v))",
    f"{_MERGE} WHEN NOT MATCHED BY SOURCE AND t.k < 3 THEN UPDATE SET v = 'gone' WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "{cte}INSERT INTO {t} SELECT k, v, n FROM {s} AS s",
    "{cte}INSERT INTO {t} BY NAME SELECT n, k FROM {s} AS s",
    ">>> DeltaTable.forName(spark, 't').alias('t').merge(spark.sql(\"{cte}SELECT * FROM {s} AS s\").alias('s'), 't.k = s.k')"
    ".whenMatchedUpdate(set={'v': 's.v'}).whenNotMatchedInsertAll().whenNotMatchedBySourceDelete('t.k = 1').execute()",
)


def all_programs() -> tuple[Program, ...]:
    """Those of the files, then those of sources."""
    written = programs()
    return (*written, *source_programs(len(written)))


def source_programs(first: int) -> tuple[Program, ...]:
    """The programs, numbered from `first`."""
    pairs = [(source, PLAIN) for source in SOURCES]
    pairs += [(source, target) for target in TARGETS if target != PLAIN for source in _IN_ALL_TARGETS]
    return tuple(
        Program(number=number, subject="sources", title=f"{source} into {target}", steps=_steps(source, target))
        for number, (source, target) in enumerate(pairs, first)
    )


def _steps(source_title: str, target_title: str) -> tuple[str, ...]:
    source, target = SOURCES[source_title], TARGETS[target_title]
    steps = [*source.steps, *target.steps]
    for number, statement in enumerate(STATEMENTS, 1):
        # What RESTORE answers depends on sizes of files.
        restored = f"{PYTHON}restored = spark.sql('RESTORE TABLE t TO VERSION AS OF 0')"
        steps += [_filled(statement, source, target), f"SELECT *, {number} AS statement FROM t", restored]
    # Our history of the last statement counts vectors, too. Tables that are left are compared with their histories.
    tables = [step.split()[2] for step in steps if step.startswith("CREATE TABLE")]
    replaced = (_filled(_REPLACE, source, target), "SELECT * FROM t")
    return (*steps, f"{PYTHON}history('t')", *replaced, *(f"DROP TABLE {table}" for table in tables))


def _filled(statement: str, source: Source, target: Target) -> str:
    return statement.replace("{cte}", source.cte).replace("{t}", target.name).replace("{s}", source.name)
