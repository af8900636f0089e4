"""The statements of the soak: made at random, and executed by a session."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from soak.model import Row, Statement

EXTRA = ("c0", "c1", "c2", "c3")
"""Columns that come and go; `id` and `n` stay."""
SHARED_KEYS = 24
"""Ids that all writers merge into."""
RETAIN_HOURS = 0.1
"""VACUUM deletes what was removed longer ago: six minutes, more than any statement takes."""
ON_ROWS = {
    "insert": 6,
    "insert_select": 2,
    "update": 8,
    "delete": 4,
    "merge": 6,
    "replace_where": 1,
    "overwrite": 0.2,
    "optimize": 3,
    "reorg": 0.5,
    "vacuum": 0.7,
    "restore": 0.7,
    "read": 3,
}
"""How likely each kind is."""
ON_DESCRIPTIONS = {
    "insert_merging": 0.7,
    "overwrite_schema": 0.5,
    "replace_table": 0.7,
    "add_column": 3,
    "drop_column": 1.5,
    "rename_column": 1.5,
    "cluster": 1.5,
    "set_properties": 4,
    "unset_properties": 1,
    "add_constraint": 1.5,
    "drop_constraint": 1.2,
    "drop_feature": 1.5,
    "comment": 0.5,
}
PROPERTIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("delta.enableDeletionVectors", ("true", "true", "false")),
    ("delta.columnMapping.mode", ("name", "name", "name", "none")),
    ("delta.enableChangeDataFeed", ("true", "false")),
    ("delta.enableRowTracking", ("true", "true", "false")),
    ("delta.enableInCommitTimestamps", ("true", "false")),
    ("delta.checkpointPolicy", ("v2", "classic")),
    ("delta.checkpointInterval", ("3", "10")),
    ("delta.autoOptimize.autoCompact", ("true", "false")),
    ("delta.dataSkippingNumIndexedCols", ("1", "32", "-1")),
    ("delta.enableTypeWidening", ("true", "false")),
    ("soak.note", ("one", "two")),
)
FEATURES = (
    "deletionVectors",
    "columnMapping",
    "changeDataFeed",
    "rowTracking",
    "inCommitTimestamp",
    "checkConstraints",
    "v2Checkpoint",
    "clustering",
    "typeWidening",
    "domainMetadata",
    "vacuumProtocolCheck",
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """How a table of the soak begins, and what happens to it."""

    name: str
    properties: dict[str, str]
    shares: dict[str, float]


KINDS = (
    Kind(
        name="rows",
        properties={"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
        shares=ON_ROWS,
    ),
    Kind(name="whole_files", properties={"delta.enableDeletionVectors": "false"}, shares=ON_ROWS),
    Kind(
        name="described",
        properties={"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"},
        shares=ON_ROWS | ON_DESCRIPTIONS,
    ),
    Kind(name="described_weakly", properties={}, shares=ON_ROWS | ON_DESCRIPTIONS),
)


def level_of(kind: str) -> str:
    """The isolation that a table keeps through all statements."""
    return "WriteSerializable" if kind == "described_weakly" else "Serializable"


class Author:
    """Makes statements for one table as one writer sees it."""

    def __init__(
        self, chance: random.Random, kind: Kind, columns: list[str], rows: int, newest: int, base: int
    ) -> None:
        self.chance, self.kind, self.rows, self.newest, self.base = chance, kind, rows, newest, base
        self.columns = columns
        self.extra = [column for column in columns if column in EXTRA]

    def statement(self) -> Statement:
        shares = dict(self.kind.shares)
        if self.rows > 250:
            shares["delete"] += 15
            shares.pop("insert_select")
        name = self.chance.choices(list(shares), list(shares.values()))[0]
        return {"kind": name, **getattr(self, f"_{name}")()}

    def new_rows(self, count: int, columns: list[str]) -> list[Row]:
        """Rows with ids that no other statement uses."""
        rows = []
        for number in range(count):
            others = {column: self.value() for column in columns if column != "id"}
            rows.append({"id": self.base + number} | others)
        return rows

    def value(self) -> int:
        return self.chance.randrange(-50, 1000)

    def some_columns(self) -> list[str]:
        return ["id", "n", *(column for column in self.extra if self.chance.random() < 0.7)]

    def where(self) -> list[Any]:
        column = self.chance.choice(["id", "id", "n", *self.extra])
        divisor = self.chance.choice([3, 7, 11])
        return [column, divisor, self.chance.sample(range(divisor), self.chance.choice([1, 1, 2]))]

    def name(self) -> str:
        """Mostly a column that is there."""
        return self.chance.choice(self.extra) if self.extra and self.chance.random() < 0.9 else self.new_name()

    def new_name(self) -> str:
        return self.chance.choice([column for column in EXTRA if column not in self.extra] or EXTRA)

    def _insert(self) -> Statement:
        return {"rows": self.new_rows(self.chance.randrange(1, 12), self.some_columns())}

    def _insert_merging(self) -> Statement:
        return {"rows": self.new_rows(3, list(dict.fromkeys([*self.some_columns(), self.chance.choice(EXTRA)])))}

    def _insert_select(self) -> Statement:
        return {"where": self.where(), "limit": 5, "base": self.base}

    def _update(self) -> Statement:
        target = self.chance.choice(["n", "n", *self.extra])
        source = self.chance.choice([target, "n"])
        return {"where": self.where(), "set": {target: [source, self.chance.randrange(-5, 20)]}}

    def _delete(self) -> Statement:
        return {"where": None if self.chance.random() < 0.02 else self.where()}

    def _merge(self) -> Statement:
        keys = self.chance.sample(range(SHARED_KEYS), self.chance.randrange(1, 6))
        rows = [{"id": key, "n": self.chance.randrange(1, 50)} for key in keys]
        return {"rows": rows, "deletes": self.chance.random() < 0.3}

    def _replace_where(self) -> Statement:
        remainder = self.chance.randrange(5)
        rows = [{**row, "n": self.chance.randrange(50) * 5 + remainder} for row in self.new_rows(4, ["id", "n"])]
        return {"where": ["n", 5, [remainder]], "rows": rows}

    def _overwrite(self) -> Statement:
        return {"rows": self.new_rows(30, self.columns)}

    def _overwrite_schema(self) -> Statement:
        extra = self.chance.sample(EXTRA, self.chance.randrange(4))
        partitioned = self.chance.choice([[], [], extra[:1]])
        return {"rows": self.new_rows(30, ["id", "n", *extra]), "partitioned": partitioned}

    def _replace_table(self) -> Statement:
        extra = self.chance.sample(EXTRA, self.chance.randrange(4))
        layout = self.chance.choice([None, None, "PARTITIONED BY", "CLUSTER BY"]) if extra else None
        columns = ["id", "n", *extra]
        properties = dict(self.kind.properties)
        for name, values in self.chance.sample(PROPERTIES[:3], 2):
            properties[name] = values[0]
        if self.chance.random() < 0.15:
            properties["delta.enableRowTracking"] = "true"
        rows = self.new_rows(20, columns) if self.chance.random() < 0.6 else []
        return {"columns": columns, "rows": rows, "properties": properties, "layout": layout, "by": extra[:1]}

    def _add_column(self) -> Statement:
        return {"column": self.new_name()}

    def _drop_column(self) -> Statement:
        return {"column": self.name()}

    def _rename_column(self) -> Statement:
        return {"column": self.name(), "to": self.new_name()}

    def _cluster(self) -> Statement:
        among = ["id", "n", *self.extra]
        return {"columns": self.chance.sample(among, self.chance.choice([0, 1, 1, 2]))}

    def _set_properties(self) -> Statement:
        chosen = self.chance.sample(PROPERTIES, self.chance.choice([1, 1, 2]))
        return {"properties": {name: self.chance.choice(values) for name, values in chosen}}

    def _unset_properties(self) -> Statement:
        return {"names": [self.chance.choice(PROPERTIES)[0]]}

    def _add_constraint(self) -> Statement:
        column = self.chance.choice(["n", *self.extra])
        return {"name": self.chance.choice(["low", "lower"]), "column": column, "least": self.chance.choice([-500, 0])}

    def _drop_constraint(self) -> Statement:
        return {"name": self.chance.choice(["low", "lower"])}

    def _drop_feature(self) -> Statement:
        return {"feature": self.chance.choice(FEATURES), "truncates": self.chance.random() < 0.2}

    def _comment(self) -> Statement:
        return {"text": f"by {self.base}"}

    def _optimize(self) -> Statement:
        return {"zorder": self.chance.choice([[], [], ["n"]])}

    def _reorg(self) -> Statement:
        return {}

    def _vacuum(self) -> Statement:
        return {"lite": self.chance.random() < 0.2}

    def _restore(self) -> Statement:
        return {"version": max(0, self.newest - self.chance.choice([1, 2, 5, 20]))}

    def _read(self) -> Statement:
        return {"version": None if self.chance.random() < 0.6 else max(0, self.newest - self.chance.randrange(5))}


def condition(where: list[Any] | None) -> str:
    if where is None:
        return "true"
    column, divisor, among = where
    # pmod is Python's remainder; % takes the sign of what is divided.
    value = f"pmod({column}, {divisor})" if divisor else column
    return f"{value} IN ({', '.join(map(str, among))})"


def values(rows: list[Row]) -> str:
    rows_in_sql = [f"({', '.join(f'CAST({_literal(value)} AS BIGINT)' for value in row.values())})" for row in rows]
    return f"VALUES {', '.join(rows_in_sql)}"


def _literal(value: int | None) -> str:
    return "NULL" if value is None else str(value)


def _properties(of: dict[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in of.items())


def in_sql(statement: Statement, table: str) -> str | None:
    """None for what only a writer of frames says."""
    maker: Callable[[Statement, str], str] | None = _SQL.get(statement["kind"])
    return maker(statement, table) if maker else None


def _insert_sql(statement: Statement, table: str) -> str:
    return f"INSERT INTO {table} ({', '.join(statement['rows'][0])}) {values(statement['rows'])}"


def _merge_sql(statement: Statement, table: str) -> str:
    deletes = "WHEN MATCHED AND pmod(t.n, 3) = 0 THEN DELETE " if statement["deletes"] else ""
    return (
        f"MERGE INTO {table} t USING ({values(statement['rows'])} AS v(id, n)) s ON t.id = s.id {deletes}"
        "WHEN MATCHED THEN UPDATE SET n = t.n + s.n WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n)"
    )


def _replace_table_sql(statement: Statement, table: str) -> str:
    begins = "CREATE TABLE IF NOT EXISTS" if statement["kind"] == "create" else "CREATE OR REPLACE TABLE"
    layout = f" {statement['layout']} ({', '.join(statement['by'])})" if statement.get("layout") else ""
    described = f"USING delta{layout} TBLPROPERTIES ({_properties(statement['properties'])})"
    if statement["rows"]:
        return f"{begins} {table} {described} AS SELECT * FROM ({values(statement['rows'])} AS v({', '.join(statement['columns'])}))"
    columns = ", ".join(f"{column} BIGINT" for column in statement["columns"])
    return f"{begins} {table} ({columns}) {described}"


def _optimize_sql(statement: Statement, table: str) -> str:
    return f"OPTIMIZE {table}" + (f" ZORDER BY ({', '.join(statement['zorder'])})" if statement["zorder"] else "")


def _drop_feature_sql(statement: Statement, table: str) -> str:
    return f"ALTER TABLE {table} DROP FEATURE {statement['feature']}" + (
        " TRUNCATE HISTORY" if statement["truncates"] else ""
    )


_SQL: dict[str, Callable[[Statement, str], str]] = {
    "insert": _insert_sql,
    "insert_select": lambda statement, table: (
        f"INSERT INTO {table} (id, n) SELECT {statement['base']} + row_number() OVER (ORDER BY id) - 1, n FROM "
        f"(SELECT id, n FROM {table} WHERE {condition(statement['where'])} ORDER BY id LIMIT {statement['limit']})"
    ),
    "update": lambda statement, table: (
        f"UPDATE {table} SET "
        + ", ".join(f"{column} = {source} + ({amount})" for column, (source, amount) in statement["set"].items())
        + f" WHERE {condition(statement['where'])}"
    ),
    "delete": lambda statement, table: f"DELETE FROM {table} WHERE {condition(statement['where'])}",
    "merge": _merge_sql,
    "replace_table": _replace_table_sql,
    "create": _replace_table_sql,
    "add_column": lambda statement, table: f"ALTER TABLE {table} ADD COLUMN {statement['column']} BIGINT",
    "drop_column": lambda statement, table: f"ALTER TABLE {table} DROP COLUMN {statement['column']}",
    "rename_column": lambda statement, table: (
        f"ALTER TABLE {table} RENAME COLUMN {statement['column']} TO {statement['to']}"
    ),
    "cluster": lambda statement, table: (
        f"ALTER TABLE {table} CLUSTER BY "
        + (f"({', '.join(statement['columns'])})" if statement["columns"] else "NONE")
    ),
    "set_properties": lambda statement, table: (
        f"ALTER TABLE {table} SET TBLPROPERTIES ({_properties(statement['properties'])})"
    ),
    "unset_properties": lambda statement, table: (
        f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({', '.join(repr(name) for name in statement['names'])})"
    ),
    "add_constraint": lambda statement, table: (
        f"ALTER TABLE {table} ADD CONSTRAINT {statement['name']} CHECK "
        f"({statement['column']} IS NULL OR {statement['column']} >= {statement['least']})"
    ),
    "drop_constraint": lambda statement, table: f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {statement['name']}",
    "drop_feature": _drop_feature_sql,
    "comment": lambda statement, table: f"COMMENT ON TABLE {table} IS '{statement['text']}'",
    "optimize": _optimize_sql,
    "reorg": lambda statement, table: f"REORG TABLE {table} APPLY (PURGE)",
    "vacuum": lambda statement, table: (
        f"VACUUM {table}{' LITE' if statement['lite'] else ''} RETAIN {RETAIN_HOURS} HOURS"
    ),
    "restore": lambda statement, table: f"RESTORE TABLE {table} TO VERSION AS OF {statement['version']}",
    "read": lambda statement, table: (
        f"SELECT * FROM {table}" + ("" if statement["version"] is None else f" VERSION AS OF {statement['version']}")
    ),
}


def execute(spark: SparkSession, statement: Statement, path: str) -> DataFrame | None:
    """Carry it out; the rows of `read` are for the caller to collect."""
    text = in_sql(statement, f"delta.`{path}`")
    if text is not None:
        return spark.sql(text)
    rows, kind = statement["rows"], statement["kind"]
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in rows], ", ".join(f"{name} BIGINT" for name in rows[0])
    )
    writer = frame.coalesce(1).write.format("delta")
    if kind == "insert_merging":
        writer.mode("append").option("mergeSchema", "true").save(path)
    elif kind == "replace_where":
        writer.mode("overwrite").option("replaceWhere", condition(statement["where"])).save(path)
    elif kind == "overwrite":
        writer.mode("overwrite").save(path)
    else:
        assert kind == "overwrite_schema"
        partitioned = writer.partitionBy(*statement["partitioned"]) if statement["partitioned"] else writer
        partitioned.mode("overwrite").option("overwriteSchema", "true").save(path)
    return None
