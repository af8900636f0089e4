"""The extension points of Spark that our classes use: a test for each fails if a later Spark changes it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def jsession(delta: SparkSession) -> Any:
    return delta._jsparkSession


def class_names(things: Any) -> list[str]:
    """The class names of the members of a Scala Seq."""
    return [things.apply(index).getClass().getName() for index in range(things.size())]


def field(thing: Any, name: str) -> Any:
    """The value of a field that the class or one of its superclasses declares."""
    cls = thing.getClass()
    while cls is not None:
        fields = [declared for declared in cls.getDeclaredFields() if declared.getName() == name]
        if fields:
            fields[0].setAccessible(True)
            return fields[0].get(thing)
        cls = cls.getSuperclass()
    pytest.fail(f"{thing.getClass().getName()} has no field {name}")


def test_the_session_catalog_is_ours(jsession: Any) -> None:
    manager = jsession.sessionState().catalogManager()
    assert manager.v2SessionCatalog().getClass().getName() == "delta.DeltaCatalog"


def test_a_session_keeps_the_catalogs_that_it_has_loaded(delta: SparkSession) -> None:
    session = delta.newSession()
    session.conf.set("spark.sql.catalog.placed", "delta.DeltaCatalog")
    assert session.sql("SHOW NAMESPACES IN placed").count() > 0
    loaded = field(session._jsparkSession.sessionState().catalogManager(), "catalogs").apply("placed")
    assert loaded.getClass().getName() == "delta.DeltaCatalog"


def test_the_parser_runs_again_with_versions_in_quotes(delta: SparkSession, name: str) -> None:
    """Spark may call any method of the parser, with parameters or without."""
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    assert delta.sql(f"SELECT id FROM {name}@v0").collect() == [(1,)]
    assert delta.sql(f"SELECT id, :x FROM {name}@v0", {"x": 2}).collect() == [(1, 2)]


def test_plans_pass_our_rules_before_cached_rows_and_after_pushed_filters(delta: SparkSession, jsession: Any) -> None:
    """By the first a transaction sees no cached rows of others, by the second it knows what its queries read."""
    for session in (jsession, delta.newSession()._jsparkSession):
        assert "anabranch.Transactions$Normalize" in class_names(session.sessionState().planNormalizationRules())
        assert "anabranch.Transactions" in class_names(session.extensions().buildPreCBORules(session))


def test_the_analyzer_has_our_resolution_rule(delta: SparkSession, jsession: Any) -> None:
    for session in (jsession, delta.newSession()._jsparkSession):
        rules = class_names(field(session.sessionState().analyzer(), "extendedResolutionRules"))
        assert rules.count("anabranch.ResolveDeltaTables") == 1


def test_the_analyzer_looks_at_paths_before_it_resolves_names(delta: SparkSession, jsession: Any) -> None:
    for session in (jsession, delta.newSession()._jsparkSession):
        rules = class_names(field(session.sessionState().analyzer(), "hintResolutionRules"))
        assert rules.count("anabranch.ResolveTablePaths") == 1


def test_the_analyzer_looks_at_keywords_before_it_resolves_names(delta: SparkSession, jsession: Any) -> None:
    for session in (jsession, delta.newSession()._jsparkSession):
        rules = class_names(field(session.sessionState().analyzer(), "hintResolutionRules"))
        assert (rules.count("anabranch.ResolveInserts"), rules.count("anabranch.ResolveUpdateDefaults")) == (1, 1)


def test_the_optimizer_chooses_versions(delta: SparkSession, jsession: Any) -> None:
    for session in (jsession, delta.newSession()._jsparkSession):
        rules = class_names(session.sessionState().optimizer().extendedOperatorOptimizationRules())
        assert rules.count("anabranch.ChooseVersions") == 1


def test_an_execution_has_one_planning_tracker(delta: SparkSession) -> None:
    tracker = getattr(delta._jvm.org.apache.spark.sql.catalyst, "QueryPlanningTracker$")
    assert getattr(tracker, "MODULE$").get().isEmpty()


def test_the_parser_is_behind_ours(delta: SparkSession, jsession: Any) -> None:
    proxies = delta._jvm.java.lang.reflect.Proxy
    for session in (jsession, delta.newSession()._jsparkSession):
        parser = session.sessionState().sqlParser()
        assert proxies.getInvocationHandler(parser).getClass().getName() == "anabranch.DeltaParser"
        # It reads the texts of views, and in Spark 4.0 those of EXECUTE IMMEDIATE.
        of_catalog = session.sessionState().catalog().parser()
        assert proxies.getInvocationHandler(of_catalog).getClass().getName() == "anabranch.DeltaParser"
    assert field(jsession.sessionState(), "sqlParser") is not None


def test_the_catalog_loads_the_changelog(delta: SparkSession) -> None:
    loader = delta._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    catalog = loader.loadClass("org.apache.spark.sql.connector.catalog.TableCatalog")
    asks = any(method.getName() == "loadChangelog" for method in catalog.getMethods())
    assert asks == (tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2))
    if asks:
        table = loader.loadClass("org.apache.spark.sql.execution.datasources.v2.ChangelogTable")
        (changelog,) = (method for method in table.getMethods() if method.getName() == "changelog")
        assert changelog.getReturnType().isInterface()


def test_the_drivers_jars_have_a_loader_in_a_field(jsession: Any) -> None:
    loader = field(jsession.sharedState(), "jarClassLoader")
    assert loader.getClass().getSuperclass().getName().startswith(("org.apache.spark.util.", "java.net."))


def test_table_functions_are_in_sparks_registry(delta: SparkSession) -> None:
    for session in (delta, delta.newSession()):
        names = {row.function for row in session.sql("SHOW FUNCTIONS LIKE 'table_changes*'").collect()}
        assert {name.rpartition(".")[2] for name in names} == {"table_changes", "table_changes_by_path"}


def test_spark_finds_the_format_by_its_name(delta: SparkSession, jsession: Any) -> None:
    source = delta._jvm.org.apache.spark.sql.execution.datasources.DataSource
    assert source.lookupDataSource("delta", jsession.sessionState().conf()).getName() == "delta.DefaultSource"


def test_writers_say_that_they_overwrite_by_name(delta: SparkSession) -> None:
    loader = delta._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    source = loader.loadClass("delta.DefaultSource")
    interfaces = [interface.getSimpleName() for interface in source.getInterfaces()]
    since = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 1)
    assert ("SupportsV1OverwriteWithSaveAsTable" in interfaces) == since


def spark_release() -> tuple[int, ...]:
    return tuple(map(int, pyspark.__version__.split(".")[:2]))


@pytest.mark.skipif(spark_release() < (4, 2), reason="PySpark has no AutoCDC")
def test_pipelines_load_tables_with_row_level_operations(delta: SparkSession) -> None:
    """AutoCDC looks at the interface; plans have a class without it."""
    loader = delta._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    interface = loader.loadClass("org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations")
    assert interface.isAssignableFrom(loader.loadClass("anabranch.RowLevelTable"))
    assert not interface.isAssignableFrom(loader.loadClass("anabranch.DeltaTable"))
    loader.loadClass("org.apache.spark.sql.pipelines.graph.DatasetManager$")


@pytest.mark.skipif(spark_release() < (4, 1), reason="PySpark has no pipelines")
def test_the_definitions_of_pipelines_are_in_the_session_of_the_client(delta: SparkSession) -> None:
    """From the server's sessions to the tables of each pipeline, by the methods that `anabranch.Pipelines` calls."""
    loader = delta._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    connect, pipelines = "org.apache.spark.sql.connect", "org.apache.spark.sql.pipelines.graph"

    def methods(name: str) -> set[str]:
        return {method.getName() for method in loader.loadClass(name).getMethods()}

    assert "sessionManager" in methods(f"{connect}.service.SparkConnectService$")
    manager = loader.loadClass(f"{connect}.service.SparkConnectSessionManager")
    assert manager.getDeclaredField("sessionStore").getType().getName() == "java.util.concurrent.ConcurrentMap"
    assert "dataflowGraphRegistry" in methods(f"{connect}.service.SessionHolder")
    assert "getAllDataflowGraphs" in methods(f"{connect}.pipelines.DataflowGraphRegistry")
    assert "tables" in methods(f"{pipelines}.GraphRegistrationContext")
    assert {"identifier", "isStreamingTable"} <= methods(f"{pipelines}.Table")
    loader.loadClass(f"{pipelines}.BatchTableWrite")


def test_the_writer_of_rows_is_made_by_its_name(delta: SparkSession) -> None:
    """Parquet reads its name from the configuration, and Spark's own class can be extended."""
    output = delta._jvm.org.apache.parquet.hadoop.ParquetOutputFormat
    assert output.WRITE_SUPPORT_CLASS == "parquet.write.support.class"
    configuration = delta._jvm.org.apache.hadoop.conf.Configuration()
    configuration.set(output.WRITE_SUPPORT_CLASS, "anabranch.NestedIdsWriteSupport")
    assert output.getWriteSupportClass(configuration).getSuperclass().getSimpleName() == "ParquetWriteSupport"


def test_calls_of_the_main_thread_pass_where_ctrl_c_is_watched(delta: SparkSession) -> None:
    """`send_command` of the gateway's client, which all objects of the JVM share."""
    client: Any = delta.sparkContext._gateway._gateway_client
    assert vars(client)["send_command"].__module__ == "anabranch.spark.gateway.interrupts"
    for thing in (delta._jsparkSession, delta._jvm.java.lang.System, delta.range(1)._jdf):
        assert thing._gateway_client is client


def test_errors_pass_the_function_that_makes_them_pythons() -> None:
    assert captured.convert_exception.__module__ == "anabranch.spark.extension.install"
    (deco,) = [const for const in captured.capture_sql_exception.__code__.co_consts if hasattr(const, "co_names")]
    assert "convert_exception" in deco.co_names


def test_the_failure_of_a_stream_shows_its_cause(delta: SparkSession) -> None:
    """PySpark keeps it in a field of its own, and raises the failure so that Python shows none."""
    failure = captured.StreamingQueryException(desc="failed", stackTrace="")
    assert failure.__cause__ is None
    assert "_cause" in vars(failure)
    failure._cause = ValueError("why")
    assert str(failure.__cause__) == "why"


def test_auto_cdc_has_no_truncates() -> None:
    """Once it has, `tests/serve/test_auto_cdc.py` needs them, too, and `docs/howto/pipelines.md` says otherwise."""
    pipelines = pytest.importorskip("pyspark.pipelines")
    flow = getattr(pipelines, "create_auto_cdc_flow", None)
    assert flow is None or not [name for name in inspect.signature(flow).parameters if "truncate" in name]


TEST_OF_ROW = {
    "catalogs under other names, `delta.DeltaCatalog`": test_a_session_keeps_the_catalogs_that_it_has_loaded,
    "session catalog, `delta.DeltaCatalog`": test_the_session_catalog_is_ours,
    "names that are paths, `anabranch.ResolveTablePaths`": test_the_analyzer_looks_at_paths_before_it_resolves_names,
    "DEFAULT, REPLACE ON and REPLACE USING in statements, `anabranch.ResolveInserts` and `anabranch.ResolveUpdateDefaults`": (
        test_the_analyzer_looks_at_keywords_before_it_resolves_names
    ),
    "leaves and statements, `anabranch.ResolveDeltaTables`": test_the_analyzer_has_our_resolution_rule,
    "version, `anabranch.ChooseVersions`": test_the_optimizer_chooses_versions,
    "tables and reads of a transaction, `anabranch.Transactions`": (
        test_plans_pass_our_rules_before_cached_rows_and_after_pushed_filters
    ),
    "one version for an execution": test_an_execution_has_one_planning_tracker,
    "parser, `anabranch.DeltaParser`": test_the_parser_is_behind_ours,
    "`CHANGES FROM`, `anabranch.DeltaChangelog`": test_the_catalog_loads_the_changelog,
    "the driver's jars, `anabranch.JarsLoader`": test_the_drivers_jars_have_a_loader_in_a_field,
    "table functions": test_table_functions_are_in_sparks_registry,
    '`format("delta")`': test_spark_finds_the_format_by_its_name,
    "`saveAsTable` over a table": test_writers_say_that_they_overwrite_by_name,
    "targets of AutoCDC, `anabranch.RowLevelTable`": test_pipelines_load_tables_with_row_level_operations,
    "refresh of a materialized view, `anabranch.Pipelines`": (
        test_the_definitions_of_pipelines_are_in_the_session_of_the_client
    ),
    "ids of elements, keys and values, `anabranch.NestedIdsWriteSupport`": test_the_writer_of_rows_is_made_by_its_name,
    "errors": test_errors_pass_the_function_that_makes_them_pythons,
    "Ctrl-C": test_calls_of_the_main_thread_pass_where_ctrl_c_is_watched,
    "cause of a failed stream": test_the_failure_of_a_stream_shows_its_cause,
}


def test_each_extension_point_of_the_design_note_has_a_test() -> None:
    text = (Path(__file__).parents[2] / "docs/design/native-spark.md").read_text("utf-8")
    rows = text.split("| extension point |")[1].split("\n\n")[0].splitlines()[2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(TEST_OF_ROW)
