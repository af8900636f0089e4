"""Statements that make a table at one time: one makes it, the others lose, are content, or append to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import anabranch
from anabranch.errors.commits import ConflictReason, ProtocolChangedException
from anabranch.errors.tables import TableAlreadyExistsError
from anabranch.spark.session.classic_catalog import ClassicCatalog
from anabranch.tables import DeltaTable
from extension.interruptions import meanwhile
from session_kinds import classic, delta_session

pytestmark = pytest.mark.spark

Creation = Callable[[SparkSession, str], object]


def sql(statement: str) -> Creation:
    return lambda spark, table: spark.sql(statement.format(t=table))


def built(kind: str) -> Creation:
    def create(spark: SparkSession, table: str) -> object:
        builder = getattr(DeltaTable, kind)(spark)
        named = builder.location(table[7:-1]) if table.startswith("delta.") else builder.tableName(table)
        return named.addColumn("id", "LONG").execute()

    return create


def saved(spark: SparkSession, table: str) -> None:
    spark.range(2).write.format("delta").saveAsTable(table)


def appended(spark: SparkSession, table: str) -> None:
    spark.range(2).write.format("delta").mode("append").saveAsTable(table)


CREATE = "CREATE TABLE {t} (id LONG) USING delta"
CREATIONS: Mapping[str, Creation] = {
    "CREATE": sql(CREATE),
    "AS SELECT": sql("CREATE TABLE {t} USING delta AS SELECT 1L AS id"),
    "builder": built("create"),
    "writeTo": lambda spark, table: spark.range(1).writeTo(table).using("delta").create(),
}
UNLESS_THERE: Mapping[str, Creation] = {
    "CREATE": sql("CREATE TABLE IF NOT EXISTS {t} (id LONG) USING delta"),
    "AS SELECT": sql("CREATE TABLE IF NOT EXISTS {t} USING delta AS SELECT 1L AS id"),
    "builder": built("createIfNotExists"),
}


@classic
@pytest.mark.parametrize("by", ["name", "path"])
def test_the_loser_of_a_creation_gets_a_conflict(delta: SparkSession, name: str, path: str, by: str) -> None:
    """Covers bug B77: the error was that the table exists, which it did not when the statement began."""
    other = anabranch.enable(delta.newSession())
    ways = {**CREATIONS, "saveAsTable": saved} if by == "name" else CREATIONS

    def table(number: int) -> str:
        return f"{name}_{number}" if by == "name" else f"delta.`{path}_{number}`"

    def made_by_another(number: int) -> Callable[[], object]:
        return lambda: other.sql(CREATE.format(t=table(number)))

    for number, create in enumerate(ways.values()):
        with (
            meanwhile(delta, made_by_another(number)),
            pytest.raises(ProtocolChangedException) as raised,
        ):
            create(delta, table(number))
        assert raised.value.reason is ConflictReason.TABLE_CREATED
        assert delta.sql(f"SELECT * FROM {table(number)}").count() == 0
        # A statement that begins when the table exists gets that error.
        with pytest.raises(PySparkException) as exists:
            create(delta, table(number))
        assert exists.value.getCondition() in {"TABLE_OR_VIEW_ALREADY_EXISTS", "DELTA_TABLE_ALREADY_EXISTS"}
    for number, create in enumerate(UNLESS_THERE.values(), start=len(ways)):
        with meanwhile(delta, made_by_another(number)):
            create(delta, table(number))
        assert delta.sql(f"SELECT * FROM {table(number)}").count() == 0
        create(delta, table(number))
    for number in range(len(ways) + len(UNLESS_THERE) if by == "name" else 0):
        delta.sql(f"DROP TABLE {table(number)}")


def test_of_many_who_create_a_table_at_one_time_one_does(delta: SparkSession, name: str) -> None:
    """Covers bug B77 with threads: a statement gets the error that the table exists only if it did from the start."""
    sessions = [anabranch.enable(delta.newSession()) for _ in range(3)]
    barrier = threading.Barrier(len(sessions))

    def run(create: Creation, session: SparkSession, table: str) -> str:
        barrier.wait(timeout=60)
        try:
            create(session, table)
        except ProtocolChangedException as lost:
            return str(lost.reason)
        except PySparkException as error:
            return str(error.getCondition())
        return "made"

    with ThreadPoolExecutor(len(sessions)) as threads:
        for create in (CREATIONS["CREATE"], CREATIONS["AS SELECT"]):
            outcomes = list(threads.map(lambda session, how=create: run(how, session, name), sessions))  # type: ignore[misc]
            assert outcomes.count("made") == 1, outcomes
            possible = {"made", str(ConflictReason.TABLE_CREATED), "TABLE_OR_VIEW_ALREADY_EXISTS"}
            assert set(outcomes) <= possible
            delta.sql(f"DROP TABLE {name}")
        outcomes = list(threads.map(lambda session: run(UNLESS_THERE["CREATE"], session, name), sessions))
        assert outcomes == ["made"] * 3
        delta.sql(f"DROP TABLE {name}")
        outcomes = list(threads.map(lambda session: run(appended, session, name), sessions))
        assert outcomes == ["made"] * 3
    assert sorted(row.id for row in delta.table(name).collect()) == [0, 0, 0, 1, 1, 1]


@classic
def test_a_first_append_by_name_goes_to_the_table_that_others_made(delta: SparkSession, name: str) -> None:
    """Covers bug B77: by path it did, by name it failed. What does not fit the winner's table is refused."""
    other = anabranch.enable(delta.newSession())
    with meanwhile(delta, lambda: appended(other, name)):
        appended(delta, name)
    assert sorted(row.id for row in delta.table(name).collect()) == [0, 0, 1, 1]
    history = DeltaTable.forName(delta, name).history().orderBy("version").collect()
    assert [(row.operation, row.isBlindAppend) for row in history] == [
        ("CREATE TABLE AS SELECT", True),
        ("WRITE", True),
    ]
    delta.sql(f"DROP TABLE {name}")
    winner = f"CREATE TABLE {name} (other STRING) USING delta"
    with meanwhile(delta, lambda: other.sql(winner)), pytest.raises(PySparkException, match="id"):
        appended(delta, name)
    assert (delta.table(name).columns, delta.table(name).count()) == (["other"], 0)


@classic
def test_a_name_that_is_on_its_way_to_the_catalog_is_waited_for(
    delta: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers bug B77: between another's first commit and its entry in the catalog the folder was said to be taken."""
    other = anabranch.enable(delta.newSession())
    committed, registers = threading.Event(), threading.Event()
    register = ClassicCatalog.register

    def late(self: ClassicCatalog, *arguments: Any, **named: Any) -> None:
        if threading.current_thread() is not threading.main_thread() and not committed.is_set():
            committed.set()
            assert registers.wait(60)
        register(self, *arguments, **named)

    class Releasing:
        """The session's clock: who waits gives the other its turn."""

        def __init__(self) -> None:
            self.clock = delta_session(delta).clock

        def __getattr__(self, method: str) -> Any:
            return getattr(self.clock, method)

        def sleep_ms(self, duration_ms: float) -> None:
            registers.set()
            self.clock.sleep_ms(duration_ms)

    monkeypatch.setattr(ClassicCatalog, "register", late)
    clock = Releasing()
    monkeypatch.setattr(delta_session(delta), "clock", clock)

    def end(create: Creation) -> object:
        committed.clear()
        registers.clear()
        with ThreadPoolExecutor(1) as thread:
            winner = thread.submit(appended, other, name)
            assert committed.wait(60)
            try:
                return create(delta, name)
            except (ProtocolChangedException, TableAlreadyExistsError) as lost:
                return type(lost)
            finally:
                registers.set()
                winner.result()

    wanted: list[tuple[Creation, type | None]] = [
        (CREATIONS["CREATE"], ProtocolChangedException),
        (CREATIONS["builder"], TableAlreadyExistsError),
        (CREATIONS["AS SELECT"], ProtocolChangedException),
        (appended, None),
    ]
    for create, error in wanted:
        assert end(create) is error
        assert delta.table(name).count() == (2 if error else 4)
        delta.sql(f"DROP TABLE {name}")
    for create in UNLESS_THERE.values():
        end(create)
        assert delta.table(name).count() == 2
        delta.sql(f"DROP TABLE {name}")
