"""What a statement enters, counted while it runs: the walk-throughs of docs/architecture.md, how many hops there are, and
how often it calls the JVM (docs/design/performance.md)."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark.sql import SparkSession

from anabranch.spark.session import delta_session
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import StoredFile
from test_house import SOURCE, paths_in, section


@dataclasses.dataclass(slots=True)
class Entered:
    """Modules of ours, and how often functions in them were called."""

    modules: set[str] = dataclasses.field(default_factory=set)
    num_calls: int = 0

    def record(self, frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)):
            self.modules.add(Path(path).relative_to(SOURCE).as_posix())
            self.num_calls += 1

    def by(self, work: Callable[[], object]) -> None:
        """Add what this work enters, on this thread and on those that begin meanwhile: Py4J's, for calls of the JVM."""
        threading.setprofile(self.record)
        sys.setprofile(self.record)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]  # typeshed has no None for it


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id LONG, v LONG) USING delta")
    delta.sql(f"INSERT INTO {table} SELECT id, id % 3 FROM range(0, 100, 1, 1)")
    return table


STATEMENTS = {
    "One write": "INSERT INTO {table} SELECT {id} + 1000, 1",
    "One read": "SELECT * FROM {table} WHERE id = {id}",
    "One DELETE": "DELETE FROM {table} WHERE id = {id}",
    "One MERGE": "MERGE INTO {table} t USING (SELECT {id} AS id, 5L AS v) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
}
HOPS_MAX = {"One write": (60, 1_130), "One read": (30, 330), "One DELETE": (70, 1_380), "One MERGE": (85, 2_370)}
"""Modules entered, and calls of functions of ours, of one statement on a small table in a session that has run it."""


JVM_CALLS_MAX = {
    "INSERT INTO {table} VALUES ({id} + 1000, 1)": 76,
    "SELECT * FROM {table} WHERE id = {id}": 20,
    "DELETE FROM {table} WHERE id = {id}": 56,
    "UPDATE {table} SET v = v + 1 WHERE id = {id}": 90,
    STATEMENTS["One MERGE"]: 206,
}
"""Calls of the JVM in such a session, from the statement to its collected result; each is a round trip over a socket."""


def run_before(delta: SparkSession, table: str, statement: str) -> None:
    """Run the statement for other rows: what is done once in a session does not count."""
    for id_ in range(3):
        delta.sql(statement.format(table=table, id=id_)).collect()


@pytest.mark.spark
@pytest.mark.parametrize("statement", JVM_CALLS_MAX)
def test_a_statement_calls_the_jvm_seldom(
    statement: str, delta: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_before(delta, table, statement)
    client: Any = delta.sparkContext._gateway._gateway_client
    send_command, commands = client.send_command, []

    def recorded(command: str, *arguments: Any, **options: Any) -> Any:
        # A thread of Py4J releases objects of the JVM when it comes to it.
        if not command.startswith(MEMORY_COMMAND_NAME):
            commands.append(command)
        return send_command(command, *arguments, **options)

    monkeypatch.setattr(client, "send_command", recorded)
    delta.sql(statement.format(table=table, id=7)).collect()
    monkeypatch.undo()
    assert len(commands) <= JVM_CALLS_MAX[statement], "".join(command.replace("\n", " ") + "\n" for command in commands)


LISTINGS_MAX = {"One write": 2, "One read": 2, "One DELETE": 2, "One MERGE": 2}
"""Listings of the log on a local disk: for the look-up and the statement. On an object store: for the look-up and the commit."""


@pytest.mark.spark
@pytest.mark.parametrize("title", LISTINGS_MAX)
def test_a_statement_lists_the_log_seldom(
    title: str, delta: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_before(delta, table, STATEMENTS[title])
    listed, list_from = [], LocalStore.list_from

    def recorded(store: LocalStore, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        listed.append(directory)
        return list_from(store, directory, start_after)

    monkeypatch.setattr(LocalStore, "list_from", recorded)
    delta.sql(STATEMENTS[title].format(table=table, id=7)).collect()
    assert len(listed) <= LISTINGS_MAX[title]


@pytest.mark.spark
def test_a_session_of_many_paths_still_keeps_the_newest(
    delta: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After 1,024 paths each callback asked Hadoop, by eleven calls, for the full name of a table's."""
    session = DeltaSession(delta)
    monkeypatch.setattr(delta_session, "PATHS_KEPT_MAX", 2)
    paths = [f"{path}/{number}" for number in range(4)]
    qualified = [session.qualified_path(folder) for folder in paths]
    with monkeypatch.context() as patched:
        patched.setattr(session, "_qualify", lambda folder: pytest.fail(f"{folder} was qualified again"))
        assert [session.qualified_path(folder) for folder in paths[2:]] == qualified[2:] == paths[2:]
    assert session.qualified_path(paths[0]) == paths[0]


JOBS_MAX = {
    "INSERT INTO {table} VALUES ({id} + 1000, 1)": 0,
    "SELECT * FROM {table} WHERE id = {id}": 1,
    "DELETE FROM {table} WHERE id = {id}": 1,
    "UPDATE {table} SET v = v + 1 WHERE id = {id}": 1,
    STATEMENTS["One MERGE"]: 2,
}
"""Jobs of Spark from the statement to its collected result."""


@pytest.mark.spark
@pytest.mark.parametrize("statement", JOBS_MAX)
def test_a_statement_on_a_small_table_runs_few_jobs(statement: str, delta: SparkSession, table: str) -> None:
    delta.sql(statement.format(table=table, id=1)).collect()
    context = delta.sparkContext
    context.setJobGroup(statement, "jobs are counted")
    try:
        delta.sql(statement.format(table=table, id=7)).collect()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # PySpark's hint lacks None
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    assert len(context.statusTracker().getJobIdsForGroup(statement)) <= JOBS_MAX[statement]


@contextlib.contextmanager
def lands_first(others: Callable[[], object]) -> Iterator[None]:
    """Within, `others` commits once, when a statement has begun its transaction: that asks who the user is."""
    waiting = [others]

    def no_login(_: SparkSession) -> None:
        if waiting:
            waiting.pop()()

    with mock.patch.object(delta_session.SESSION_RULES, "login_of", no_login):
        yield


@pytest.mark.spark
@pytest.mark.parametrize("title", STATEMENTS)
def test_a_statement_enters_what_its_walkthrough_names(title: str, delta: SparkSession, path: str, table: str) -> None:
    """Those for conflicts where another commit lands first, those for a log where it is read the first time."""
    statement = STATEMENTS[title]

    def run(id_: int) -> None:
        delta.sql(statement.format(table=table, id=id_)).collect()

    run_before(delta, table, statement)
    entered = Entered()
    entered.by(lambda: run(7))
    modules_max, calls_max = HOPS_MAX[title]
    assert len(entered.modules) <= modules_max, sorted(entered.modules)
    assert entered.num_calls <= calls_max
    delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    delta.sql(f"ALTER TABLE {table} ADD CONSTRAINT c CHECK (v < 9)")
    copied = f"{path} copied"
    shutil.copytree(path, copied)
    with lands_first(lambda: delta.sql(f"DELETE FROM {table} WHERE id = 50")):
        entered.by(lambda: run(8))
    entered.by(
        lambda: delta.sql(f"INSERT INTO {table} SELECT id + 2000, v FROM delta.`{copied}` WHERE id = 9").collect()
    )
    entered.by(lambda: delta.sql(f"INSERT INTO {table} SELECT id + 3000, v FROM {table} WHERE id = 9").collect())
    page = section(title).partition("\nUPDATE (")[0].partition("\nOPTIMIZE rewrites")[0]
    named = {name for name in paths_in(page) if (SOURCE / name).is_file()}
    assert named - entered.modules == set()
