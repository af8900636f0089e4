"""What Spark's UI shows of statements: jobs, their groups, and the executions of the SQL tab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

DESCRIPTION, GROUP = "spark.job.description", "spark.jobGroup.id"


class Shown:
    """The jobs and executions that Spark's own store has of some work."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context: Any = spark.sparkContext
        self._last_job = max((job.jobId() for job in self._jobs()), default=-1)
        self._last_execution = max((execution.executionId() for execution in self._executions()), default=-1)

    def _jobs(self) -> list[Any]:
        self._context._jsc.sc().listenerBus().waitUntilEmpty()
        jobs = self._context._jsc.sc().statusStore().jobsList(None)
        return [jobs.apply(index) for index in range(jobs.size())]

    def _executions(self) -> list[Any]:
        self._context._jsc.sc().listenerBus().waitUntilEmpty()
        executions = self._spark._jsparkSession.sharedState().statusStore().executionsList()
        return [executions.apply(index) for index in range(executions.size())]

    def jobs(self) -> list[tuple[str, str]]:
        """Description and group of each new job; an empty text for none."""
        new = sorted((job for job in self._jobs() if job.jobId() > self._last_job), key=lambda job: job.jobId())
        return [(_text(job.description()), _text(job.jobGroup())) for job in new]

    def tags(self) -> list[set[str]]:
        """The tags of each new job."""
        new = [job for job in self._jobs() if job.jobId() > self._last_job]
        return [set(str(job.jobTags().mkString(",")).split(",")) for job in new]

    def statement(self) -> str:
        """The description of the first new execution, which has the others inside it."""
        new = [execution for execution in self._executions() if execution.executionId() > self._last_execution]
        first = min(new, key=lambda execution: execution.executionId())
        return str(first.description())


def _text(option: Any) -> str:
    return str(option.get()) if option.isDefined() else ""


@pytest.fixture
def table(native: SparkSession, path: str) -> str:
    native.range(0, 100, 1, 2).selectExpr("id", "id % 3 AS v").write.format("delta").save(path)
    return f"delta.`{path}`"


@pytest.fixture(autouse=True)
def nothing_is_left(native: SparkSession) -> Iterator[None]:
    """No test leaves a property on the thread, whether its statement succeeds or not."""
    yield
    for name in (DESCRIPTION, GROUP, "anabranch.job.description", "anabranch.job.tag"):
        assert native.sparkContext.getLocalProperty(name) is None
    assert not set(native.sparkContext.getJobTags())


MERGE = (
    "MERGE INTO {table} t USING (SELECT id, 9L AS v FROM range(90, 120)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)


@pytest.mark.parametrize(
    ("statement", "last"),
    [
        ("DELETE FROM {table}\n WHERE id = 5", "DELETE FROM {table}: find rows"),
        ("UPDATE {table} SET v = 7 WHERE id % 2 = 0", "UPDATE {table}: find rows"),
        (MERGE, "MERGE INTO {table}: write files"),
        ("INSERT INTO {table} SELECT id, id FROM range(5)", "WRITE TO {table}: write files"),
        ("OPTIMIZE {table}", "OPTIMIZE {table}: rewrite files"),
    ],
)
def test_jobs_say_their_phase_and_the_execution_its_command(
    statement: str, last: str, native: SparkSession, table: str
) -> None:
    text = statement.format(table=table)
    shown = Shown(native)
    native.sql(text).collect()
    jobs = shown.jobs()
    assert jobs[-1][0] == last.format(table=table)
    title = last.format(table=table).partition(":")[0]
    assert {description.startswith(title) for description, _ in jobs} == {True}
    (group,) = {group for _, group in jobs}
    assert group.startswith("anabranch-")
    in_one_line = " ".join(text.split())
    assert shown.statement() == (in_one_line if len(in_one_line) <= 100 else f"{in_one_line[:99]}…")


def test_statements_have_groups_of_their_own(native: SparkSession, table: str) -> None:
    shown = Shown(native)
    native.sql(f"DELETE FROM {table} WHERE id = 5")
    native.sql(f"DELETE FROM {table} WHERE id = 6")
    assert len({group for _, group in shown.jobs()}) == 2


@pytest.mark.parametrize(
    ("call", "execution"),
    [
        (lambda table: table.delete("id = 5"), "DELETE FROM {table}"),
        (lambda table: table.update("id = 5", {"v": "1"}), "UPDATE {table}"),
    ],
)
def test_methods_of_delta_table_are_described(
    call: Callable[[DeltaTable], object], execution: str, native: SparkSession, table: str, path: str
) -> None:
    deltas = DeltaTable.forPath(native, path)
    shown = Shown(native)
    call(deltas)
    assert shown.statement() == execution.format(table=table)
    assert {description.startswith(execution.format(table=table)) for description, _ in shown.jobs()} == {True}


def test_methods_outside_of_sql_are_described(native: SparkSession, table: str, path: str) -> None:
    shown = Shown(native)
    DeltaTable.forPath(native, path).optimize().executeCompaction()
    rewritten = [job for job in shown.jobs() if job[0]]
    assert {description for description, _ in rewritten} == {f"OPTIMIZE {table}: rewrite files"}
    assert len({group for _, group in rewritten}) == 1


def test_groups_and_descriptions_of_users_stay(native: SparkSession, table: str, path: str) -> None:
    context = native.sparkContext
    context.setJobGroup("nightly", "nightly load")
    try:
        shown = Shown(native)
        native.sql(f"UPDATE {table} SET v = 7 WHERE id = 5")
        DeltaTable.forPath(native, path).optimize().executeCompaction()
        assert set(shown.jobs()) == {("nightly load", "nightly")}
        assert shown.statement() == "nightly load"
        assert len(context.statusTracker().getJobIdsForGroup("nightly")) >= 2
        assert context.getLocalProperty(DESCRIPTION) == "nightly load"
        assert context.getLocalProperty(GROUP) == "nightly"
    finally:
        for name in (DESCRIPTION, GROUP):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # PySpark's hint lacks None


def test_tags_of_users_stay(native: SparkSession, table: str) -> None:
    context = native.sparkContext
    context.addJobTag("nightly")
    try:
        shown = Shown(native)
        native.sql(f"UPDATE {table} SET v = 7 WHERE id = 5")
        assert {"nightly" in tags for tags in shown.tags()} == {True}
        own = {tag for tags in shown.tags() for tag in tags if tag.startswith("anabranch-")}
        assert len(own) == 1, "each job has the tag of its statement"
        assert set(context.getJobTags()) == {"nightly"}
    finally:
        context.clearJobTags()


def test_a_group_without_description_stays_a_group(native: SparkSession, table: str) -> None:
    context = native.sparkContext
    context.setLocalProperty(GROUP, "mine")
    try:
        shown = Shown(native)
        native.sql(f"DELETE FROM {table} WHERE id = 5")
        assert set(shown.jobs()) == {(f"DELETE FROM {table}: find rows", "mine")}
    finally:
        context.setLocalProperty(GROUP, None)  # type: ignore[arg-type]


def test_statements_that_do_not_run_describe_nothing(native: SparkSession, table: str) -> None:
    """EXPLAIN analyses a statement, and so does one that fails right after it."""
    native.sql(f"EXPLAIN DELETE FROM {table} WHERE id = 5").collect()
    shown = Shown(native)
    native.range(3).count()
    assert set(shown.jobs()) == {("", "")}


def test_a_statement_that_is_only_analysed_is_forgotten(native: SparkSession, table: str) -> None:
    """Tools analyse statements that they do not run. The next plan on the thread takes the description back."""
    state: Any = native._jsparkSession.sessionState()
    skip = native._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()

    def analyse() -> None:
        parsed = state.sqlParser().parsePlan(f"DELETE FROM {table} WHERE id = 1")
        assert "PythonCommand" in str(state.executePlan(parsed, skip).analyzed().toString())

    analyse()
    shown = Shown(native)
    native.range(3).count()
    assert set(shown.jobs()) == {("", "")}
    analyse()
    shown = Shown(native)
    native.sql(f"UPDATE {table} SET v = 1 WHERE id = 2")
    assert shown.statement().startswith(f"UPDATE {table} SET")


def test_a_failed_statement_leaves_nothing(native: SparkSession, table: str) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        native.sql(f"UPDATE {table} SET v = 1 / (id - id)")
    shown = Shown(native)
    native.range(3).count()
    assert set(shown.jobs()) == {("", "")}
