"""Every session of an application knows Delta, no matter which code made it, until `disable`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch
from anabranch.errors.environment import SessionCatalogTakenError
from anabranch.spark.gateway.jvm_sessions import identity
from anabranch.spark.session import delta_session
from anabranch.spark.session.delta_session import DeltaSession
from extension.own_processes import run_program

pytestmark = pytest.mark.spark


@pytest.fixture
def table(delta: SparkSession) -> Iterator[str]:
    """A table of the catalog with ids 0 to 4."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    delta.sql(f"CREATE TABLE {name} (id BIGINT) USING delta")
    delta.sql(f"INSERT INTO {name} SELECT id FROM range(5)")
    yield name
    delta.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.fixture
def clone(delta: SparkSession) -> Callable[[], SparkSession]:
    """Clones as Spark makes them for streams."""

    def made() -> SparkSession:
        session: Any = delta._jsparkSession
        return SparkSession(delta.sparkContext, session.cloneSession())

    return made


def knows_delta(spark: SparkSession, table: str) -> bool:
    """The session reads the table by name, by path, at a version, in a statement, in a temporary view."""
    before = spark.table(table).count()
    spark.sql(f"DELETE FROM {table} WHERE id = (SELECT max(id) FROM {table})")
    spark.table(table).createOrReplaceTempView("rows_of_table")
    first = spark.sql(f"SELECT count(*) FROM {table} VERSION AS OF 1").collect()
    by_path = spark.read.format("delta").load(spark.table(table).inputFiles()[0].rpartition("/")[0]).count()
    return (before - 1, [(5,)]) == (spark.sql("SELECT * FROM rows_of_table").count(), first) and by_path == before - 1


class OwnSession(SparkSession):
    """A subclass, as frameworks have them."""


def test_sessions_made_after(delta: SparkSession, table: str, clone: Callable[[], SparkSession]) -> None:
    assert knows_delta(delta.newSession(), table)
    assert knows_delta(delta.newSession().newSession(), table)
    assert knows_delta(clone(), table)


def test_a_subclass_and_the_session_beside_it(delta: SparkSession, table: str) -> None:
    session: Any = delta._jsparkSession
    own = OwnSession(delta.sparkContext, session.newSession())
    assert knows_delta(anabranch.enable(own), table)
    assert type(own.newSession()) is OwnSession
    assert knows_delta(own.newSession(), table)
    assert knows_delta(delta, table)


def test_threads(delta: SparkSession, table: str) -> None:
    answers: list[bool] = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: answers.append(knows_delta(delta, table)))
        thread.start()
        thread.join()
    assert answers == [True, True]


def test_the_session_of_a_batch(delta: SparkSession, table: str, tmp_path: Path) -> None:
    """The pattern of Delta's own documentation: MERGE by `batch.sparkSession.sql`, with a view over the batch."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 4}\n{"id": 5}\n')

    def upsert(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("updates")
        batch.sparkSession.sql(
            f"MERGE INTO {table} t USING updates u ON t.id = u.id "
            "WHEN MATCHED THEN UPDATE SET id = t.id + 100 WHEN NOT MATCHED THEN INSERT *"
        )

    stream = delta.readStream.schema("id long").json(str(tmp_path / "in")).writeStream.foreachBatch(upsert)
    query = stream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(60)
    assert sorted(row.id for row in delta.table(table).collect()) == [0, 1, 2, 3, 5, 104]


def test_enabling_again_changes_nothing(delta: SparkSession, table: str) -> None:
    session: Any = delta._jsparkSession
    jvm: Any = delta._jvm

    def fields() -> tuple[int, str]:
        state = session.sessionState()
        which = jvm.java.lang.System.identityHashCode(state.sqlParser())
        return which, state.analyzer().extendedResolutionRules().toString()

    before = fields()
    anabranch.enable(delta)
    assert fields() == before
    assert knows_delta(delta, table)


def test_another_library_with_the_session_catalog_is_named(delta: SparkSession) -> None:
    session = delta.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "org.example.Catalog")
    with pytest.raises(SessionCatalogTakenError, match=r"spark_catalog is org\.example\.Catalog"):
        anabranch.enable(session)


def test_sessions_are_let_go(delta: SparkSession, table: str) -> None:
    """Nothing of a session is kept when the session has ended."""
    for _ in range(2 * delta_session.SESSIONS_KEPT_MAX):
        assert delta.newSession().table(table).count() == 5
    assert len(delta_session._sessions) <= delta_session.SESSIONS_KEPT_MAX + 50
    mine = delta.newSession()
    kept = DeltaSession.of(mine)
    for _ in range(2 * delta_session.SESSIONS_KEPT_MAX):
        delta.newSession().table(table).count()
    assert identity(mine) not in delta_session._recent
    assert DeltaSession.of(mine) is kept


@pytest.mark.long
@pytest.mark.parametrize("program", ["attributes", "disabling", "contexts", "made_before", "settings_of_the_jar"])
def test_in_a_process_of_its_own(program: str, tmp_path: Path) -> None:
    run_program(program, tmp_path)
