"""Every way in which a row gets into a table, under one signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

WAIT_S = 60


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """A table, and the column whose value identifies a row."""

    delta: SparkSession
    path: str
    name: str
    """In the catalog, for the calls that take no path."""
    key: str
    partition: str
    scratch: Path
    """For checkpoints."""

    @property
    def quoted(self) -> str:
        return f"delta.`{self.path}`"


Row = Mapping[str, str]
"""SQL by column."""
WritePath = Callable[[Target, Row, bool], Any]
"""Write one row, with or without schema evolution. Raises what the write raises."""


def selected(row: Row) -> list[str]:
    return [f"{value} AS `{column}`" for column, value in row.items()]


def frame_of(target: Target, row: Row) -> DataFrame:
    return target.delta.sql(f"SELECT {', '.join(selected(row))}")


def writer(target: Target, row: Row, mode: str, evolves: bool) -> Any:
    return frame_of(target, row).write.format("delta").mode(mode).option("mergeSchema", evolves)


def append(target: Target, row: Row, evolves: bool) -> None:
    writer(target, row, "append", evolves).save(target.path)


def overwrite(target: Target, row: Row, evolves: bool) -> None:
    writer(target, row, "overwrite", evolves).save(target.path)


def replace_where(target: Target, row: Row, evolves: bool) -> None:
    condition = f"{target.partition} = {row[target.partition]}"
    writer(target, row, "overwrite", evolves).option("replaceWhere", condition).save(target.path)


def dynamic_overwrite(target: Target, row: Row, evolves: bool) -> None:
    writer(target, row, "overwrite", evolves).option("partitionOverwriteMode", "dynamic").save(target.path)


def save_as_table(target: Target, row: Row, evolves: bool) -> None:
    writer(target, row, "append", evolves).saveAsTable(target.name)


def insert_into(target: Target, row: Row, evolves: bool) -> None:
    """Inserts by position, so that each column needs a value."""
    columns = target.delta.table(target.name).columns
    complete = {column: row.get(column, "NULL") for column in columns}
    writer(target, complete, "append", evolves).insertInto(target.name)


def write_to(target: Target, row: Row, evolves: bool) -> None:
    frame_of(target, row).writeTo(target.name).option("mergeSchema", evolves).append()


def sql_insert(target: Target, row: Row, evolves: bool) -> None:
    evolution = "WITH SCHEMA EVOLUTION " if evolves else ""
    target.delta.sql(f"INSERT {evolution}INTO {target.quoted} BY NAME SELECT {', '.join(selected(row))}")


def sql_insert_columns(target: Target, row: Row, evolves: bool) -> None:
    assert not evolves, "columns that are named are there"
    names = ", ".join(f"`{column}`" for column in row)
    target.delta.sql(f"INSERT INTO {target.quoted} ({names}) VALUES ({', '.join(row.values())})")


def sql_overwrite(target: Target, row: Row, evolves: bool) -> None:
    evolution = "WITH SCHEMA EVOLUTION " if evolves else ""
    target.delta.sql(f"INSERT {evolution}OVERWRITE {target.quoted} BY NAME SELECT {', '.join(selected(row))}")


def sql_replace_where(target: Target, row: Row, evolves: bool) -> None:
    """Replaces by position."""
    assert not evolves, "the statement has no words for it"
    columns = target.delta.table(target.quoted).columns
    values = selected({column: row.get(column, "NULL") for column in columns})
    condition = f"{target.partition} = {row[target.partition]}"
    target.delta.sql(f"INSERT INTO {target.quoted} REPLACE WHERE {condition} SELECT {', '.join(values)}")


def update(target: Target, row: Row, evolves: bool) -> None:
    """The row with key 0."""
    assert not evolves, "UPDATE changes no schema"
    assignments = ", ".join(f"`{column}` = {value}" for column, value in row.items())
    target.delta.sql(f"UPDATE {target.quoted} SET {assignments} WHERE {target.key} = 0")


def merge_update(target: Target, row: Row, evolves: bool) -> None:
    """The row with key 0."""
    assignments = ", ".join(f"`{column}` = s.`{column}`" for column in row)
    target.delta.sql(
        f"MERGE {_evolution(evolves)}INTO {target.quoted} t USING (SELECT {', '.join(selected(row))}) s "
        f"ON t.{target.key} = 0 WHEN MATCHED THEN UPDATE SET {assignments}"
    )


def merge_insert(target: Target, row: Row, evolves: bool) -> None:
    names, values = (", ".join(f"{of}`{column}`" for column in row) for of in ("", "s."))
    target.delta.sql(
        f"MERGE {_evolution(evolves)}INTO {target.quoted} t USING (SELECT {', '.join(selected(row))}) s "
        f"ON false WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
    )


def stream(target: Target, row: Row, evolves: bool) -> None:
    _stream(target, row, "append", evolves)


def stream_complete(target: Target, row: Row, evolves: bool) -> None:
    _stream(target, row, "complete", evolves)


def _stream(target: Target, row: Row, mode: str, evolves: bool) -> None:
    """One batch of one row. Raises the cause of the query's failure."""
    source = target.delta.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1)
    rows = source.load() if mode == "append" else source.load().groupBy("value").count()
    checkpoint = target.scratch / f"checkpoint-{len(list(target.scratch.iterdir()))}"
    writer = rows.selectExpr(*selected(row)).writeStream.format("delta").outputMode(mode).option("mergeSchema", evolves)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(target.path)
    try:
        assert query.awaitTermination(WAIT_S)
    except StreamingQueryException as failure:
        assert str(failure.__cause__) in str(failure)
        raise (failure.__cause__ or failure) from None


def _evolution(evolves: bool) -> str:
    return "WITH SCHEMA EVOLUTION " if evolves else ""


ADDING: dict[str, WritePath] = {
    "append": append,
    "saveAsTable": save_as_table,
    "insertInto": insert_into,
    "writeTo": write_to,
    "INSERT": sql_insert,
    "INSERT (columns)": sql_insert_columns,
    "MERGE insert": merge_insert,
    "stream": stream,
}
REPLACING: dict[str, WritePath] = {
    "overwrite": overwrite,
    "replaceWhere": replace_where,
    "dynamic overwrite": dynamic_overwrite,
    "INSERT OVERWRITE": sql_overwrite,
    "INSERT REPLACE WHERE": sql_replace_where,
    "stream complete": stream_complete,
}
CHANGING: dict[str, WritePath] = {"UPDATE": update, "MERGE update": merge_update}
BY_POSITION = {"insertInto", "INSERT REPLACE WHERE"}
