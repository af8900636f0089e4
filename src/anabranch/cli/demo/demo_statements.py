"""The statements of the demo's concurrent writers: executed on the table, and replayed by Spark one after the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UPDATE, DELETE, MERGE, OPTIMIZE = "UPDATE", "DELETE", "MERGE", "OPTIMIZE"
SOURCE = "carrier string, minutes int"
_NEW_FLIGHT = {
    "year": "2013",
    "day": "31",
    "dep_time": "900",
    "dep_delay": "0",
    "arr_delay": "s.minutes",
    "carrier": "s.carrier",
    "flight": "1",
    "origin": "'JFK'",
    "dest": "'BOS'",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement. Its fields can be written as JSON."""

    kind: str
    words: str
    """A description for the output."""
    condition: str = ""
    """The rows that it changes. For a MERGE, the flights that it may match: those of one month that were flown."""
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    month: int = 0
    """For a MERGE, the month of the flights that it inserts."""
    source: Sequence[tuple[str, int]] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Statement:
        """The statement that `dataclasses.asdict` turned into this document."""
        source = tuple((carrier, minutes) for carrier, minutes in document["source"])
        return cls(**{**document, "source": source})


def statements_by_writer() -> list[list[Statement]]:
    """The statements of each writer. They change different rows of the same files."""
    return [
        [_on_time("UA", 1), _on_time("B6", 2)],
        [_without_cancelled(1), _without_cancelled(3)],
        [_corrected(1), _corrected(2)],
        [Statement(kind=OPTIMIZE, words="compact small files")] * 2,
    ]


def conflicting_update() -> Statement:
    """The statement that two writers execute on the same rows."""
    return Statement(
        kind=UPDATE,
        words="one minute more for the flights of Christmas from JFK",
        condition="month = 12 AND day = 25 AND origin = 'JFK'",
        values={"arr_delay": "arr_delay + 1"},
    )


def run(spark: SparkSession, path: str, statement: Statement) -> None:
    """Execute the statement on the table."""
    from anabranch.tables import DeltaTable  # noqa: PLC0415 - only the demo loads Spark

    table = DeltaTable.forPath(spark, path)
    if statement.kind == UPDATE:
        table.update(statement.condition, dict(statement.values))
    elif statement.kind == DELETE:
        table.delete(statement.condition)
    elif statement.kind == OPTIMIZE:
        table.optimize().executeCompaction()
    else:
        merge = table.alias("t").merge(_source(spark, statement), f"t.carrier = s.carrier AND {statement.condition}")
        merge.whenMatchedUpdate(set=dict(statement.values)).whenNotMatchedInsert(
            values=_new_flight(statement)
        ).execute()


def replayed(spark: SparkSession, flights: DataFrame, statements: Sequence[Statement]) -> DataFrame:
    """The rows after these statements, executed one after the other by Spark without a table."""
    for statement in statements:
        flights = _replayed(spark, flights, statement)
    return flights


def _replayed(spark: SparkSession, flights: DataFrame, statement: Statement) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - PySpark's own convention; only the demo loads it

    if statement.kind == OPTIMIZE:
        return flights
    if statement.kind == DELETE:
        return flights.where(f"NOT coalesce({statement.condition}, false)")
    if statement.kind == UPDATE:
        return flights.select(*_changed(flights, statement.values, hit=f"coalesce({statement.condition}, false)"))
    source = _source(spark, statement)
    kept = flights.alias("t").join(source, F.expr(f"t.carrier = s.carrier AND {statement.condition}"), "left")
    matched = flights.alias("t").where(statement.condition).select("carrier").distinct()
    new = source.join(matched, "carrier", "left_anti").alias("s")
    values = _new_flight(statement)
    inserted = new.select(*(F.expr(values.get(name, "NULL")).alias(name) for name in flights.columns))
    return kept.select(*_changed(flights, statement.values, hit="s.carrier IS NOT NULL", alias="t.")).union(inserted)


def _changed(flights: DataFrame, values: Mapping[str, str], *, hit: str, alias: str = "") -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    columns = []
    for field in flights.schema:
        value = F.col(alias + field.name)
        if field.name in values:
            value = F.when(F.expr(hit), F.expr(values[field.name]).cast(field.dataType)).otherwise(value)
        columns.append(value.alias(field.name))
    return columns


def _source(spark: SparkSession, statement: Statement) -> DataFrame:
    return spark.createDataFrame(list(statement.source), SOURCE).alias("s")


def _new_flight(statement: Statement) -> dict[str, Any]:
    return {**_NEW_FLIGHT, "month": str(statement.month)}


def _on_time(carrier: str, month: int) -> Statement:
    return Statement(
        kind=UPDATE,
        words=f"early departures of {carrier} in month {month} count as on time",
        condition=f"carrier = '{carrier}' AND month = {month} AND dep_delay < 0",
        values={"dep_delay": "0"},
    )


def _without_cancelled(month: int) -> Statement:
    return Statement(
        kind=DELETE,
        words=f"without the cancelled flights of month {month}",
        condition=f"month = {month} AND dep_time IS NULL",
    )


def _corrected(month: int) -> Statement:
    return Statement(
        kind=MERGE,
        words=f"corrected arrivals of AA and DL in month {month}, and a new carrier",
        condition=f"t.month = {month} AND t.dep_time IS NOT NULL",
        values={"arr_delay": "t.arr_delay + s.minutes"},
        month=month,
        source=(("AA", 2), ("DL", 3), (f"Z{month}", 5)),
    )
