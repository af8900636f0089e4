"""Names, texts and expressions that would be something else if anybody put them into SQL, a path or a format string.

Covers attacks A2, A4, A6, A7, A11 and A12. The grammar of stored expressions is tried in tests/predicates/test_stored_sql.py, paths
of the log in tests/protocol/test_data_paths.py, features in tests/protocol/test_features.py, lines of the log in
tests/protocol/test_actions_json.py.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from anabranch.errors.base import DeltaError
from anabranch.errors.constraints import CheckConstraintViolationError, UntrustedExpressionError
from anabranch.errors.schema import ReservedColumnsError
from anabranch.tables import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.long]

NAMES = [
    "`",
    "``a`",
    "'",
    '"quoted"',
    "a; DROP TABLE t",
    "a b",
    "line\nbreak",
    "tab\t=",
    "{}",
    "{0.__class__}",
    "{x}",
    ":name",
    "?",
    "$1",
    "%s",
    "a.b",
    "*",
    "-- comment",
    "/* x */",
    "' OR 1=1 --",
    "\\",
    "ünïcode \u202e \U0001f600",
    "a,b)",
    " space ",
    "source",
    "target",
    "SELECT",
]

OR_TRUE = "' OR 1=1 --"


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def commits(path: str) -> list[list[dict[str, Any]]]:
    """Every line of the log is one action."""
    commits = []
    for file in sorted(Path(path, "_delta_log").glob("*.json")):
        if not file.stem.isdigit():
            continue
        actions = [json.loads(line) for line in file.read_bytes().split(b"\n") if line]
        assert all(len(action) == 1 for action in actions), file
        commits.append(actions)
    return commits


def test_names_of_columns(delta: SparkSession, path: str) -> None:
    """Covers attack A7: every statement takes them for names, and their values for values."""
    schema = StructType([StructField("id", LongType()), *(StructField(name, StringType()) for name in NAMES)])
    rows = [(number, *(f"{number}{name}" for name in NAMES)) for number in range(3)]
    frame = delta.createDataFrame(rows, schema)
    frame.write.format("delta").option("delta.columnMapping.mode", "name").partitionBy("`' OR 1=1 --`").save(path)
    table = f"delta.`{path}`"
    matches = " AND ".join(f"t.{quote(name)} = {literal('1' + name)}" for name in NAMES)
    assert delta.sql(f"SELECT id FROM {table} t WHERE {matches}").collect() == [(1,)]
    changes = ", ".join(f"{quote(name)} = {literal('changed ' + name)}" for name in NAMES)
    delta.sql(f"UPDATE {table} AS t SET {changes} WHERE {matches}")
    delta.sql(f"DELETE FROM {table} AS t WHERE {matches} OR id = 2")
    delta.createDataFrame([(0, *("merged" for _ in NAMES)), (7, *NAMES)], schema).createOrReplaceTempView("hostile")
    first = quote(NAMES[1])
    delta.sql(
        f"MERGE INTO {table} t USING hostile s ON t.id = s.id AND t.{first} <> s.{first} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    written = {
        row[0]: tuple(row)[1:]
        for row in delta.read.format("delta").load(path).select("id", *map(quote, NAMES)).collect()
    }
    assert written == {
        0: tuple("merged" for _ in NAMES),
        1: tuple("changed " + name for name in NAMES),
        7: tuple(NAMES),
    }
    delta.sql(f"OPTIMIZE {table} ZORDER BY ({quote(NAMES[0])}, {quote('a; DROP TABLE t')})")
    replaced = f"{quote(NAMES[2])} = {literal(NAMES[2])}"
    delta.createDataFrame([(8, *NAMES)], schema).write.format("delta").mode("overwrite").option(
        "replaceWhere", replaced
    ).save(path)
    assert sorted(row.id for row in delta.read.format("delta").load(path).collect()) == [0, 1, 8]
    assert NAMES[4] in delta.sql(f"DESCRIBE {table}").toPandas()["col_name"].tolist()


@pytest.mark.parametrize(
    "name", ["__anabranch_file_id", "__Anabranch_Row_Index", "__anabranch_hidden_rows", "_tmp_metadata_row_index"]
)
def test_names_that_anabranch_gives_to_columns_of_its_own(delta: SparkSession, path: str, name: str) -> None:
    """No table gets them, and one that has them from elsewhere is neither read nor written.

    Covers bug B89: neither those that Spark's Parquet reader gives; the numbers of rows came out as their values."""
    frame = delta.createDataFrame([(1, 2)], f"id long, {name} long")
    with pytest.raises(ReservedColumnsError, match=name):
        frame.write.format("delta").save(path)
    delta.range(2).write.format("delta").save(path)
    with pytest.raises(ReservedColumnsError, match=name):
        delta.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS ({name} LONG)")
    with pytest.raises(ReservedColumnsError, match=name):
        frame.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    foreign = json.dumps(commits(path)[0]).replace('\\"id\\"', json.dumps(json.dumps(name))[1:-1])
    log = Path(path, "_delta_log", "00000000000000000001.json")
    log.write_text(json.dumps(next(action for action in json.loads(foreign) if "metaData" in action)) + "\n")
    for statement in ("SELECT * FROM {t}", f"DELETE FROM {{t}} WHERE {name} = 5"):
        with pytest.raises(ReservedColumnsError, match=name):
            delta.sql(statement.format(t=f"delta.`{path}`")).collect()


def test_names_that_spark_takes_for_variables(delta: SparkSession, path: str) -> None:
    """SQL text cannot have them, as Spark puts the variable in before it reads the text; everything else can."""
    name = "${spark.app.name}"
    # As a type: a server would put the variable into text.
    columns = StructType([StructField("id", LongType()), StructField(name, StringType())])
    delta.createDataFrame([(1, "a"), (2, "b")], columns).write.format("delta").option(
        "delta.columnMapping.mode", "name"
    ).save(path)
    table = DeltaTable.forPath(delta, path)
    table.update(F.col("id") == 1, {quote(name): F.lit("changed")})
    source = delta.createDataFrame([(2, "merged"), (3, "new")], columns)
    merge = table.alias("t").merge(source.alias("s"), F.col("t.id") == F.col("s.id"))
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.delete(F.col(quote(name)) == "new")
    table.optimize().executeZOrderBy(quote(name))
    assert sorted(map(tuple, table.toDF().collect())) == [(1, "changed"), (2, "merged")]


def test_changes_of_columns_with_such_names(native: SparkSession, path: str) -> None:
    native.range(2).write.format("delta").option("delta.columnMapping.mode", "name").save(path)
    table = f"delta.`{path}`"
    columns = ", ".join(f"{quote(name)} STRING COMMENT {literal(name)}" for name in NAMES)
    native.sql(f"ALTER TABLE {table} ADD COLUMNS ({columns})")
    native.sql(f"ALTER TABLE {table} RENAME COLUMN {quote(NAMES[4])} TO {quote('x`' + NAMES[4])}")
    native.sql(f"ALTER TABLE {table} DROP COLUMNS ({quote(NAMES[0])}, {quote(NAMES[7])})")
    native.sql(f"ALTER TABLE {table} ALTER COLUMN {quote(NAMES[5])} COMMENT {literal('; DROP')}")
    native.sql(f"COMMENT ON TABLE {table} IS {literal(OR_TRUE)}")
    written = {
        name: (f"x`{NAMES[4]}" if name == NAMES[4] else name) for name in NAMES if name not in (NAMES[0], NAMES[7])
    }
    schema = native.read.format("delta").load(path).schema
    assert schema.names == ["id", *written.values()]
    comments = {field.name: field.metadata.get("comment") for field in schema.fields}
    assert {new: comments[new] for new in written.values()} == {
        new: "; DROP" if old == NAMES[5] else old for old, new in written.items()
    }
    condition = " AND ".join(f"({quote(name)} IS NULL OR {quote(name)} <> 'no')" for name in written.values())
    native.sql(f"ALTER TABLE {table} ADD CONSTRAINT {quote(OR_TRUE)} CHECK ({condition})")
    with pytest.raises(CheckConstraintViolationError) as refused:
        native.sql(f"INSERT INTO {table} (id, {quote(NAMES[2])}) VALUES (1, 'no')")
    assert OR_TRUE.lower() in refused.value.constraint.lower()
    native.sql(f"INSERT INTO {table} (id, {quote(NAMES[2])}) VALUES (1, 'yes')")
    native.sql(f"ALTER TABLE {table} DROP CONSTRAINT {quote(OR_TRUE)}")
    commits(path)


@pytest.mark.parametrize("name", ["a;b'c", "x{a,b}*?[d]", "50%20 ü#", "it's `quoted`"])
def test_names_of_folders(delta: SparkSession, tmp_path: Path, name: str) -> None:
    """A neighbour whose name the pattern would match is left alone."""
    root, neighbour = tmp_path / name, tmp_path / "xa1d"
    delta.range(3).write.format("delta").save(str(neighbour))
    delta.range(3).write.format("delta").save(str(root))
    table = f"delta.{quote(str(root))}"
    delta.sql(f"INSERT INTO {table} VALUES (9)")
    delta.sql(f"DELETE FROM {table} WHERE id = 1")
    delta.sql(f"OPTIMIZE {table}")
    assert sorted(row.id for row in delta.sql(f"SELECT * FROM {table}").collect()) == [0, 2, 9]
    assert delta.read.format("delta").load(str(neighbour)).count() == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([name, "xa1d"])


@pytest.mark.parametrize("name", ["a{b,c}*?[d].parquet", "a%2Fb ;'#.parquet", "$(x) `y`.parquet"])
def test_names_of_data_files(delta: SparkSession, path: str, name: str) -> None:
    """Covers attack A4: a file that the name would match as a pattern is no part of the table."""
    delta.range(0, 3, 1, 1).write.format("delta").save(path)
    commit = Path(path, "_delta_log", "00000000000000000000.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    add = next(action["add"] for action in actions if "add" in action)
    Path(path, add["path"]).rename(Path(path, name))
    shutil.copy(Path(path, name), Path(path, "abxxd.parquet"))
    add["path"] = urllib.parse.quote(name)
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    table = f"delta.`{path}`"
    assert delta.sql(f"SELECT * FROM {table}").count() == 3
    delta.sql(f"DELETE FROM {table} WHERE id = 1")
    delta.sql(f"INSERT INTO {table} VALUES (9)")
    delta.sql(f"OPTIMIZE {table}")
    assert sorted(row.id for row in delta.sql(f"SELECT * FROM {table}").collect()) == [0, 2, 9]


VALUES = [
    "..",
    ".",
    "../../x",
    "..%2F..%2Fx",
    "%2e%2e",
    "/etc/passwd",
    "a/../b",
    "\\..\\",
    "x=y/z",
    "{}",
    "*",
    "NULL",
    "null",
    "__HIVE_DEFAULT_PARTITION__x",
    " ",
    "file:/x",
    "s3://b/x",
    "\n",
    "'; --",
]


def test_partition_values_never_leave_the_table(delta: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "tables" / "t"
    rows = list(enumerate(VALUES))
    delta.createDataFrame(rows, "id long, part string").write.format("delta").partitionBy("part").save(str(root))
    table = f"delta.`{root}`"
    for value in VALUES[:3]:
        assert delta.sql(f"SELECT id FROM {table} WHERE part = {literal(value)}").collect() == [(VALUES.index(value),)]
    delta.sql(f"UPDATE {table} SET part = concat(part, '/../..') WHERE id < 4")
    added = delta.createDataFrame([(50, "..")], "id long, part string")
    added.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(str(root))
    delta.sql(f"OPTIMIZE {table}")
    expected = {number: value + "/../.." if number < 4 else value for number, value in rows} | {50: ".."}
    assert {row.id: row.part for row in delta.sql(f"SELECT * FROM {table}").collect()} == expected
    assert [file.name for file in tmp_path.rglob("*.parquet") if not file.resolve().is_relative_to(root)] == []
    assert [file.name for file in (tmp_path / "tables").iterdir()] == ["t"]


def test_text_of_users_stays_in_its_line_of_the_log(native: SparkSession, path: str) -> None:
    """Covers attack A12."""
    evil = '\n{"remove":{"path":"x","dataChange":true}}\r\n\u2028"}}\n'
    native.range(3).write.format("delta").option("userMetadata", evil).save(path)
    table = f"delta.`{path}`"
    native.sql(f"COMMENT ON TABLE {table} IS {literal(evil)}")
    native.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({literal('my' + evil)} = {literal(evil)})")
    native.sql(f"ALTER TABLE {table} ALTER COLUMN id COMMENT {literal(evil)}")
    native.sql(f"DELETE FROM {table} WHERE id = 1 AND {literal(evil)} <> ''")
    kinds = [next(iter(action)) for actions in commits(path) for action in actions]
    assert kinds.count("remove") == 1, "the deletion vector's"
    assert DeltaTable.forPath(native, path).history().where("version = 0").first().userMetadata == evil
    assert native.read.format("delta").load(path).count() == 2


ATTACKS = {
    "reflect": "reflect('java.nio.file.Files', 'createDirectory', '{marker}') IS NULL",
    "java_method": "java_method('java.lang.System', 'setProperty', 'anabranch.hostile', '{marker}') IS NULL",
    "try_reflect": "try_reflect('java.lang.System', 'setProperty', 'anabranch.hostile', '{marker}') IS NULL",
    "a function of the user": "hostile_function(id) IS NULL",
    "subquery": "(SELECT count(*) FROM delta.`{marker}`) > 0",
    "exists": "EXISTS (SELECT 1)",
    "raise_error": "assert_true(raise_error('hostile')) IS NULL",
    "current_user": "current_user() = 'x'",
    "input_file_name": "input_file_name() = 'x'",
    "rand": "rand() < 2",
    "window": "row_number() OVER (ORDER BY id) > 0",
    "memory": "length(repeat('x', 2000000000)) > 0",
    "identifier": "IDENTIFIER('reflect')('a', 'b') IS NULL",
    "end of the text": "id > 0) OR reflect('a', 'b') IS NULL OR (id > 0",
    "comment": "id > 0 /* */ AND reflect/**/('a', 'b') IS NULL",
    "two statements": "id > 0; DROP TABLE x",
    "a variable of the machine": "word <> '${{env:PATH}}'",
    "a variable of the session": "word <> '${{spark.app.name}}' OR reflect('a', 'b') IS NULL",
}
CARRIERS = ["CHECK", "invariant", "generated", "default"]


class Victim:
    """A table whose log an attacker writes."""

    def __init__(self, delta: SparkSession, path: str) -> None:
        self._delta, self._path = delta, path
        delta.sql(
            f"CREATE TABLE delta.`{path}` (id BIGINT, word STRING, flag BOOLEAN) USING delta "
            "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported', 'delta.feature.generatedColumns' = 'supported', "
            "'delta.feature.checkConstraints' = 'supported', 'delta.feature.invariants' = 'supported')"
        )
        delta.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a', true), (2, 'b', true)")
        self._metadata = next(action["metaData"] for action in commits(path)[0] if "metaData" in action)
        self._version = len(commits(path))

    def carry(self, carrier: str, expression: str) -> None:
        metadata = json.loads(json.dumps(self._metadata))
        schema = json.loads(metadata["schemaString"])
        flag = schema["fields"][2]["metadata"]
        if carrier == "CHECK":
            metadata["configuration"]["delta.constraints.evil"] = expression
        elif carrier == "invariant":
            flag["delta.invariants"] = json.dumps({"expression": {"expression": expression}})
        else:
            flag["delta.generationExpression" if carrier == "generated" else "CURRENT_DEFAULT"] = expression
        metadata["schemaString"] = json.dumps(schema)
        self.write(json.dumps({"metaData": metadata}))

    def write(self, *lines: str) -> None:
        log = Path(self._path, "_delta_log", f"{self._version:020}.json")
        log.write_text("\n".join(lines) + "\n")
        self._version += 1

    def statements(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Those that write rows, and so come across the expression."""
        table, delta = f"delta.`{self._path}`", self._delta
        frame = delta.sql("SELECT 5L AS id, 'new' AS word")
        yield "append", lambda: frame.write.format("delta").mode("append").save(self._path)
        yield "overwrite", lambda: frame.write.format("delta").mode("overwrite").save(self._path)
        yield "INSERT", lambda: delta.sql(f"INSERT INTO {table} (id, word) VALUES (5, 'new')")
        yield (
            "MERGE",
            lambda: delta.sql(
                f"MERGE INTO {table} t USING (SELECT 5L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
            ),
        )

    def rewrites(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Those that go on with rows that are there, and with the table."""
        table, delta = f"delta.`{self._path}`", self._delta
        yield "UPDATE", lambda: delta.sql(f"UPDATE {table} SET word = 'x' WHERE id = 1")
        yield "DELETE", lambda: delta.sql(f"DELETE FROM {table} WHERE id = 2")
        yield "OPTIMIZE", lambda: delta.sql(f"OPTIMIZE {table}")
        yield "ADD CONSTRAINT", lambda: delta.sql(f"ALTER TABLE {table} ADD CONSTRAINT other CHECK (id < 1000)")
        yield "RENAME", lambda: delta.sql(f"ALTER TABLE {table} ALTER COLUMN word COMMENT 'x'")
        yield "SHOW", lambda: delta.sql(f"SHOW CREATE TABLE {table}").collect()
        yield "SELECT", lambda: delta.sql(f"SELECT * FROM {table} WHERE flag").collect()

    @property
    def landed(self) -> int:
        return len(commits(self._path)) - self._version


@pytest.mark.parametrize("carrier", CARRIERS)
def test_stored_expressions_that_do_more_than_they_may(
    native: SparkSession, path: str, tmp_path: Path, carrier: str
) -> None:
    """Covers attack A6: every statement refuses them by name before Spark sees them."""
    native.udf.register("hostile_function", lambda number: number, "long")
    victim, marker = Victim(native, path), tmp_path / "marker"
    statements = list(victim.statements())
    for number, attack in enumerate(ATTACKS.values()):
        expression = attack.format(marker=marker)
        victim.carry(carrier, expression)
        # All attacks by one statement each, and by all statements in turn.
        name, run = statements[number % len(statements)]
        with pytest.raises(UntrustedExpressionError) as refused:
            run()
        assert refused.value.expression == expression, name
        assert not marker.exists()
        assert victim.landed == 0, name
    for name, run in victim.rewrites():
        # Those that compute nothing by it may succeed.
        with contextlib.suppress(DeltaError):
            run()
        assert not marker.exists(), name
    assert {row.id for row in native.read.format("delta").load(path).collect()} <= {1, 2}


@pytest.mark.parametrize("attack", ["reflect", "a function of the user", "subquery", "current_user", "two statements"])
def test_such_expressions_do_not_get_in(native: SparkSession, path: str, tmp_path: Path, attack: str) -> None:
    """No statement can write them."""
    table, expression = f"delta.`{path}`", ATTACKS[attack].format(marker=tmp_path / "marker")
    Victim(native, path)
    before = len(commits(path))
    for statement in (
        f"ALTER TABLE {table} ADD CONSTRAINT evil CHECK ({expression})",
        f"ALTER TABLE {table} ALTER COLUMN flag SET DEFAULT {expression}",
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.constraints.evil' = {literal(expression)})",
        f"CREATE TABLE delta.`{path}2` (id BIGINT, f BOOLEAN GENERATED ALWAYS AS ({expression})) USING delta",
    ):
        with pytest.raises(
            Exception,
            match=r"(?i)untrusted|functions|select|syntax|default_value|cannot|must not|DELTA_|PATH_NOT_FOUND",
        ) as refused:
            native.sql(statement)
        assert not re.search(r"java\.lang\.reflect|InvocationTarget", str(refused.value))
    builder = DeltaTable.create(native).location(path + "3").addColumn("id", "LONG")
    with pytest.raises(DeltaError):
        builder.addColumn("f", "BOOLEAN", generatedAlwaysAs=expression).execute()
    assert len(commits(path)) == before
    assert not (tmp_path / "marker").exists()
    assert not Path(path + "2", "_delta_log").exists()
    assert not Path(path + "3", "_delta_log").exists()


DOWNGRADES = {
    "an unknown feature": (
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["xyz"], "writerFeatures": ["xyz"]},
        "xyz",
    ),
    "an unknown version": ({"minReaderVersion": 9, "minWriterVersion": 9}, "9"),
    "a version without its features": ({"minReaderVersion": 3, "minWriterVersion": 7}, "eatures"),
    "a negative version": ({"minReaderVersion": -1, "minWriterVersion": -1}, "-1"),
}


@pytest.mark.parametrize("trick", DOWNGRADES)
def test_protocols_that_we_do_not_know_are_refused(native: SparkSession, path: str, trick: str) -> None:
    """Covers attack A11: for reading as for writing; the table is left as it was."""
    victim = Victim(native, path)
    protocol, named = DOWNGRADES[trick]
    victim.write(json.dumps({"protocol": protocol}))
    for _, run in [*victim.statements(), *victim.rewrites()]:
        with pytest.raises(DeltaError, match=named):
            run()
    assert victim.landed == 0


@pytest.mark.parametrize(
    "uri",
    ["../other/f.parquet", "file:///etc/passwd", "a/..%2f..%2f/f.parquet"],
)
def test_files_outside_the_table_are_not_read(delta: SparkSession, path: str, uri: str) -> None:
    """Covers attack A2."""
    victim = Victim(delta, path)
    add = {"path": uri, "partitionValues": {}, "size": 10, "modificationTime": 0, "dataChange": True, "stats": None}
    victim.write(json.dumps({"add": add}))
    table = f"delta.`{path}`"
    for statement in (f"SELECT * FROM {table}", f"DELETE FROM {table} WHERE id = 1", f"OPTIMIZE {table}"):
        with pytest.raises(DeltaError, match=r"(?i)outside|path"):
            delta.sql(statement).collect()
    assert victim.landed == 0
