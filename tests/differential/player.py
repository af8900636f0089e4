"""Plays programs in a Spark with the delta-spark jar, or in one with anabranch, and writes down what each step gave.

    python tests/differential/player.py jar|anabranch FOLDER < programs.json > answers

A process of its own for each: neither may know of the other. One program a line comes in as JSON, one line of answers
goes out for each.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyspark.sql.functions as functions
from pyspark.sql import DataFrame, Row, SparkSession, types

ANSWER = "@answer "
"""Starts each line that is one; Spark prints what it likes."""
JARS = "ANABRANCH_JARS"
PYTHON = ">>> "
"""Starts a step that is Python; the others are SQL."""
_BY_JAR = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    # VACUUM of the jar lists folders in so many tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}
_ALIKE = {
    # What new tables have by default differs by release of delta-spark.
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
    # So many files as there are statements, whatever cores Spark has.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""Settings of the session of each program."""
_VOLATILE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|part-\d{5}|#\d+L?")


def session(side: str, folder: Path) -> SparkSession:
    """A session that knows Delta in the way named."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
    }
    if side == "jar":
        settings |= {"spark.jars": os.environ[JARS], **_BY_JAR}
    builder = SparkSession.builder.master("local[1]").appName(side)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    if side == "anabranch":
        import anabranch

        anabranch.enable(spark)
    return spark


def delta_table(side: str) -> Any:
    """The class `DeltaTable` of the side."""
    if side == "jar":
        from delta.tables import DeltaTable  # type: ignore[import-not-found]
    else:
        from anabranch.tables import DeltaTable
    return DeltaTable


def play(spark: SparkSession, side: str, folder: Path, program: dict[str, Any]) -> list[dict[str, Any]]:
    """What the steps gave, and last what the tables of the program hold then."""
    own = spark.newSession()
    for key, value in _ALIKE.items():
        own.conf.set(key, value)
    schema = f"program{program['number']}"
    directory = folder / schema
    directory.mkdir()
    names = {
        str(directory): "{path}",
        str(folder): "{side}",
        str(own.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"): "{warehouse}",
        schema: "{schema}",
    }
    own.sql(f"CREATE SCHEMA {schema}")
    own.sql(f"USE {schema}")
    variables = _names(own, side, directory)
    answers = []
    for step in program["steps"]:
        text = step.replace("{path}", str(directory)).replace("{schema}", schema)
        answers.append(_normal(_step(own, text, variables), names))
    for table in sorted(_tables(own)):
        for text in (f"SELECT * FROM {table}", f"{PYTHON}history('{table}')"):
            answer = _normal(_step(own, text, variables), names)
            answers.append({"step": f"at the end: {text}", **answer})
    own.sql(f"DROP SCHEMA {schema} CASCADE")
    shutil.rmtree(directory, ignore_errors=True)
    return answers


def _names(spark: SparkSession, side: str, directory: Path) -> dict[str, Any]:
    def history(name: str) -> list[list[Any]]:
        # In Python: Spark would run a job to sort what it has in memory.
        rows = sorted(spark.sql(f"DESCRIBE HISTORY {name}").collect(), key=lambda row: row.version)
        return [
            [row.version, row.operation, *_comparable(row.operationParameters), sorted(row.operationMetrics or [])]
            for row in rows
        ]

    def detail(name: str) -> dict[str, Any]:
        row = spark.sql(f"DESCRIBE DETAIL {name}").first()
        assert row is not None
        left_out = {"id", "createdAt", "lastModified", "sizeInBytes", "statistics"}
        return {key: value for key, value in row.asDict().items() if key not in left_out}

    return {
        "spark": spark,
        "DeltaTable": delta_table(side),
        "F": functions,
        "T": types,
        "Row": Row,
        "path": str(directory),
        "history": history,
        "detail": detail,
        "datetime": datetime,
    }


def _comparable(parameters: dict[str, str] | None) -> list[list[str]]:
    """Parameters of an operation. Those that are texts of plans are compared by name alone: attributes have numbers."""
    left = {"properties", "predicate", "matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates"}
    return [
        [key, "" if key in left else value] for key, value in sorted((parameters or {}).items()) if value is not None
    ]


def _tables(spark: SparkSession) -> list[str]:
    return [row.tableName for row in spark.sql("SHOW TABLES").collect() if not row.isTemporary and row.tableName != "v"]


def _step(spark: SparkSession, text: str, variables: dict[str, Any]) -> dict[str, Any]:
    try:
        value = _python(text.removeprefix(PYTHON), variables) if text.startswith(PYTHON) else spark.sql(text)
        if isinstance(value, DataFrame):
            rows = [_plain(row) for row in value.collect()]
            if "ORDER BY" not in text:
                rows.sort(key=repr)
            return {"schema": value.schema.simpleString(), "rows": rows}
    except Exception as error:
        return _description_of(error)
    if value is None or isinstance(value, (str, int, float, bool, list, tuple, dict, Row)):
        return {"rows": _plain(value)}
    return {"rows": type(value).__name__}


def _python(text: str, variables: dict[str, Any]) -> Any:
    """Statements, and the value of the last if it is an expression."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<step>", "exec"), variables)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "<step>", "eval"), variables)


def _description_of(error: Any) -> dict[str, Any]:
    """Condition and SQLSTATE: the outermost that has any. The text is for the reader of a difference."""
    condition = state = None
    thrown = error
    for _ in range(10):
        if condition is not None or thrown is None:
            break
        condition, state = _call(thrown, "getCondition"), _call(thrown, "getSqlState")
        thrown = (
            getattr(error, "java_exception", None) or getattr(error, "_origin", None)
            if thrown is error
            else thrown.getCause()
        )
    if condition == "INTERNAL_ERROR" and (unknown := re.search(r"Cannot find main error class '(\w+)'", str(error))):
        # PySpark looks the text of Delta's condition up where Spark's are.
        condition, state = unknown[1], None
    kind = next((base.__name__ for base in type(error).__mro__ if base.__module__.startswith("pyspark.errors")), None)
    return {
        "error": condition or type(error).__name__,
        "state": state,
        "kind": kind or type(error).__name__,
        "text": str(error)[:600],
    }


def _call(error: Any, method: str) -> str | None:
    """What this method of the error returns, if it has it: those of Java need not."""
    try:
        text = getattr(error, method)()
    except Exception:
        return None
    return None if text is None else str(text)


def _plain(value: Any) -> Any:
    """A value as JSON has it, equal for equal values."""
    if isinstance(value, Row):
        return [_plain(element) for element in value]
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return sorted(([_plain(key), _plain(element)] for key, element in value.items()), key=repr)
    if value is None or isinstance(value, (str, int, bool)):
        return value
    if isinstance(value, (float, decimal.Decimal, datetime.date, datetime.datetime, bytes, bytearray)):
        return str(value)
    return repr(value)


def _normal(answer: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The text without what differs between two runs of one program: folders have the names given, the longest first."""
    text = json.dumps(answer)
    for text_of_run in sorted(names, key=len, reverse=True):
        text = text.replace(text_of_run, names[text_of_run])
    normal: dict[str, Any] = json.loads(_VOLATILE.sub("_", text))
    return normal


def main() -> None:
    side, folder = sys.argv[1], Path(sys.argv[2])
    spark = session(side, folder)
    print(ANSWER + json.dumps({"ready": spark.version}), flush=True)
    for line in sys.stdin:
        program = json.loads(line)
        try:
            answers = play(spark, side, folder, program)
        except Exception as error:
            answers = [{"step": "the program", **_description_of(error), "text": str(error)[:2000]}]
        print(ANSWER + json.dumps({"number": program["number"], "answers": answers}), flush=True)


if __name__ == "__main__":
    main()
