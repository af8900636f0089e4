"""ALTER TABLE: properties, columns, constraints, clustering, features."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType, VarcharType

from anabranch.commands.alter.alter_clustering import alter_cluster_by
from anabranch.commands.alter.alter_columns import (
    alter_add_columns,
    alter_change_columns,
    alter_drop_columns,
    alter_replace_columns,
    alter_sync_identity,
)
from anabranch.commands.alter.alter_constraints import alter_add_constraint, alter_drop_constraint
from anabranch.commands.alter.alter_properties import alter_set_properties, alter_table_comment, alter_unset_properties
from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.drop_feature.drop_feature import alter_drop_feature
from anabranch.commands.table_access import TableRef, table_named
from anabranch.errors.alterations import (
    ColumnInUseError,
    ColumnMappingNeededError,
    ColumnNamesNeedMappingError,
    ConstraintAsPropertyError,
    ConstraintsLeftError,
    FeatureDropError,
    FeatureNotSupportedByTableError,
    InvalidClusteringError,
    NotAStructError,
    PermanentFeatureError,
    PropertyNotSetError,
    UnknownFeatureDropError,
    UnsupportedColumnChangeError,
    UnsupportedNewColumnError,
)
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.commits import ConcurrentAppendException, MetadataChangedException, ProtocolChangedException
from anabranch.errors.constraints import (
    CheckConstraintViolationError,
    ConstraintExistsError,
    ConstraintNotFoundError,
    ExistingRowsViolateError,
    ExpressionTypeError,
    NotNullViolationError,
    UntrustedExpressionError,
)
from anabranch.errors.other_formats import IcebergCompatFilesError
from anabranch.errors.protocol import (
    InvalidPropertyError,
    UnknownFeatureError,
    UnknownPropertyError,
)
from anabranch.errors.schema import ColumnMappingChangeError, ColumnNotFoundError, DuplicateColumnsError
from anabranch.errors.tables import DefaultsNotEnabledError
from anabranch.schema.column_changes import FIRST, ColumnChange, NewColumn, Position
from anabranch.tables import DeltaTable, IdentityGenerator
from anabranch.transactions.proposed_commit import Operation
from session_kinds import delta_session, table_ref

pytestmark = pytest.mark.spark

INT, LONG, STRING = IntegerType(), LongType(), StringType()
MAPPED = {"delta.columnMapping.mode": "name"}
WIDENS = {"delta.enableTypeWidening": "true"}


def load(delta: SparkSession, path: str) -> DataFrame:
    return delta.read.format("delta").load(path)


def append(frame: DataFrame, path: str, **options: Any) -> None:
    frame.write.format("delta").mode("append").options(**options).save(path)


def new_table(delta: SparkSession, path: str, query: str, **properties: str) -> TableRef:
    """A table of the rows of a query."""
    delta.sql(query).write.format("delta").options(**properties).save(path)
    return table_ref(delta, path)


def rows(delta: SparkSession, path: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in load(delta, path).collect())


def last(delta: SparkSession, path: str) -> tuple[str, dict[str, Any]]:
    """Operation and parameters of the newest version."""
    entry = DeltaTable.forPath(delta, path).history(1).first()
    return entry.operation, entry.operationParameters


def test_set_and_unset_properties(delta: SparkSession, path: str) -> None:
    table = new_table(delta, path, "SELECT 1 AS a")
    alter_set_properties(table, {"delta.IsolationLevel": "Serializable", "mine": "x", "comment": "about a"})
    assert last(delta, path)[0] == "SET TBLPROPERTIES"
    assert json.loads(last(delta, path)[1]["properties"])["mine"] == "x"
    detail = DeltaTable.forPath(delta, path).detail().first()
    assert detail.properties["delta.isolationLevel"] == "Serializable"
    assert detail.description == "about a"
    assert alter_set_properties(table, {"mine": "x"}) is None
    alter_set_properties(table, {"delta.rowLevelConcurrencyPreview": "true"})
    with pytest.raises(UnknownPropertyError, match="isolationLevel"):
        alter_set_properties(table, {"delta.isolationLevl": "Serializable"})
    with pytest.raises(InvalidPropertyError, match="Serializable"):
        alter_set_properties(table, {"delta.isolationLevel": "SnapshotIsolation"})
    with pytest.raises(ConstraintAsPropertyError, match="ADD CONSTRAINT") as refused:
        alter_set_properties(table, {"delta.constraints.c": "a > 0"})
    assert refused.value.getCondition() == "DELTA_ADD_CONSTRAINTS"
    with pytest.raises(PropertyNotSetError):
        alter_unset_properties(table, ["theirs"])
    alter_unset_properties(table, ["mine", "theirs", "delta.isolationlevel"], if_exists=True)
    assert last(delta, path) == (
        "UNSET TBLPROPERTIES",
        {"properties": '["mine","theirs","delta.isolationLevel"]', "ifExists": "true"},
    )
    alter_table_comment(table, None)
    detail = DeltaTable.forPath(delta, path).detail().first()
    assert detail.description is None
    assert set(detail.properties) == {"delta.enableDeletionVectors", "delta.rowLevelConcurrencyPreview"}


def test_properties_bring_their_features(delta: SparkSession, path: str) -> None:
    """No more than is needed; what we cannot write, and what rows would need first, is refused."""
    table = new_table(delta, path, "SELECT 1 AS a", **{"delta.enableDeletionVectors": "false"})
    protocol = table.latest().protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    alter_set_properties(table, {"delta.enableChangeDataFeed": "true"})
    assert set(table.latest().protocol.writer_features or ()) == {"appendOnly", "changeDataFeed", "invariants"}
    with pytest.raises(IcebergCompatFilesError, match="UPGRADE UNIFORM"):
        alter_set_properties(table, {"delta.enableIcebergCompatV2": "true", **MAPPED})
    alter_set_properties(table, {"delta.enableDeletionVectors": "true"})
    assert table.latest().protocol.reader_features == ["deletionVectors"]


def test_column_mapping_starts_with_the_names_in_files(delta: SparkSession, path: str) -> None:
    table = new_table(delta, path, "SELECT 1 AS a, named_struct('x', 2) AS s")
    alter_set_properties(table, MAPPED)
    schema = table.latest().schema
    assert schema["a"].metadata == {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "a"}
    assert table.latest().properties.column_mapping_max_id == 3
    assert rows(delta, path) == [(1, (2,))]
    alter_add_columns(table, [NewColumn(path=("odd name",), data_type=LONG)])
    assert table.latest().schema["odd name"].metadata["delta.columnMapping.physicalName"].startswith("col-")
    append(delta.sql("SELECT 3 AS a, named_struct('x', 4) AS s, 5L AS `odd name`"), path)
    assert sorted(load(delta, path).collect(), key=lambda row: row.a) == [(1, (2,), None), (3, (4,), 5)]
    with pytest.raises(ColumnMappingChangeError):
        alter_set_properties(table, {"delta.columnMapping.mode": "id"})
    with pytest.raises(ColumnNamesNeedMappingError, match="`odd name`"):
        alter_unset_properties(table, ["delta.columnMapping.mode"])


def test_add_columns(delta: SparkSession, path: str) -> None:
    table = new_table(delta, path, "SELECT 1 AS a, named_struct('x', 2) AS s, array(named_struct('k', 3)) AS l")
    alter_add_columns(
        table,
        [
            NewColumn(path=("b",), data_type=VarcharType(3), comment="new", position=FIRST),
            NewColumn(path=("S", "y"), data_type=LONG, position=Position(after="X")),
            NewColumn(path=("l", "element", "j"), data_type=INT, position=FIRST),
        ],
    )
    assert load(delta, path).schema.simpleString().startswith("struct<b:")
    assert [field.name for field in load(delta, path).schema] == ["b", "a", "s", "l"]
    operation, parameters = last(delta, path)
    assert operation == "ADD COLUMNS"
    logged = json.loads(parameters["columns"])
    assert (logged[0]["column"]["name"], logged[0]["position"]) == ("b", "FIRST")
    assert logged[1]["column"]["name"] == "S.y"
    assert rows(delta, path) == [(None, 1, (2, None), [(None, 3)])]
    append(delta.sql("SELECT 'xyz' AS b, 2 AS a"), path)
    with pytest.raises(Exception, match=r"varchar\(3\)"):
        append(delta.sql("SELECT 'wxyz' AS b, 2 AS a"), path)
    assert alter_add_columns(table, [NewColumn(path=("A",), data_type=INT)], if_not_exists=True) is None


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewColumn(path=("A",), data_type=INT), DuplicateColumnsError),
        (NewColumn(path=("b",), data_type=INT, nullable=False), UnsupportedNewColumnError),
        (NewColumn(path=("b",), data_type=INT, default="1"), UnsupportedNewColumnError),
        (NewColumn(path=("a", "b"), data_type=INT), NotAStructError),
        (NewColumn(path=("z", "b"), data_type=INT), ColumnNotFoundError),
        (NewColumn(path=("b",), data_type=INT, position=Position(after="z")), ColumnNotFoundError),
    ],
)
def test_columns_that_cannot_be_added(
    delta: SparkSession, tmp_path_factory: pytest.TempPathFactory, new: NewColumn, error: type[Exception]
) -> None:
    path = str(tmp_path_factory.getbasetemp() / "cannot be added")
    if table_ref(delta, path).delta_log.snapshots.latest_or_none() is None:
        delta.sql("SELECT 1 AS a").write.format("delta").save(path)
    with pytest.raises(error):
        alter_add_columns(table_ref(delta, path), [new])


def test_drop_and_rename_columns(delta: SparkSession, path: str) -> None:
    """Covers race 77's other side: what a column is called in files never changes."""
    query = "SELECT 1 AS a, 2 AS b, named_struct('x', 3, 'y', 4) AS s, 'p' AS part"
    table = new_table(delta, path, query, **{"delta.dataSkippingStatsColumns": "a,s.x"})
    with pytest.raises(ColumnMappingNeededError, match="drop column b"):
        alter_drop_columns(table, [("b",)])
    with pytest.raises(ColumnMappingNeededError, match="rename column b"):
        alter_change_columns(table, [ColumnChange(path=("b",), new_name="c")])
    alter_set_properties(table, MAPPED)
    alter_change_columns(table, [ColumnChange(path=("A",), new_name="new a")])
    assert last(delta, path) == ("RENAME COLUMN", {"oldColumnPath": "A", "newColumnPath": "`new a`"})
    alter_change_columns(table, [ColumnChange(path=("s", "x"), new_name="z")])
    assert table.latest().properties.stats_columns == (("new a",), ("s", "z"))
    alter_drop_columns(table, [("b",), ("s", "y"), ("nope",)], if_exists=True)
    assert last(delta, path) == ("DROP COLUMNS", {"columns": '["b","s.y"]'})
    assert rows(delta, path) == [(1, (3,), "p")]
    # A new column of an old name has nothing to do with the old one.
    alter_add_columns(table, [NewColumn(path=("b",), data_type=STRING)])
    assert rows(delta, path) == [(1, (3,), "p", None)]
    with pytest.raises(DuplicateColumnsError):
        alter_change_columns(table, [ColumnChange(path=("b",), new_name="PART")])
    with pytest.raises(ColumnNotFoundError):
        alter_drop_columns(table, [("s", "y")])
    with pytest.raises(UnsupportedColumnChangeError, match="only column"):
        alter_drop_columns(table, [("s", "z")])
    # Two columns may swap their names.
    swap = [ColumnChange(path=("b",), new_name="t"), ColumnChange(path=("part",), new_name="b")]
    alter_change_columns(table, [*swap, ColumnChange(path=("t",), new_name="part")])
    assert rows(delta, path) == [(1, (3,), "p", None)]
    assert load(delta, path).columns == ["new a", "s", "b", "part"]


def test_columns_that_something_depends_on(delta: SparkSession, path: str) -> None:
    """Constraints, generated columns, partitioning and clustering keep theirs."""
    builder = DeltaTable.create(delta).location(path).addColumn("a", "INT").addColumn("p", "INT")
    builder.addColumn("s", "STRUCT<x: INT, y: INT>").addColumn("g", "INT", generatedAlwaysAs="s.x + a")
    builder.property("delta.constraints.c", "A > 0").property("delta.enableTypeWidening", "true")
    builder.property("delta.columnMapping.mode", "name").partitionedBy("p").execute()
    table = table_ref(delta, path)
    with pytest.raises(ColumnInUseError, match=r"CHECK constraint c \(A > 0\); generated column g") as refused:
        alter_drop_columns(table, [("a",)])
    assert "dropped" in str(refused.value)
    with pytest.raises(ColumnInUseError, match="generated column g"):
        alter_change_columns(table, [ColumnChange(path=("s", "x"), new_name="z")])
    with pytest.raises(ColumnInUseError, match="another type"):
        alter_change_columns(table, [ColumnChange(path=("a",), data_type=LONG)])
    with pytest.raises(ColumnInUseError, match="partitioning"):
        alter_drop_columns(table, [("p",)])
    alter_change_columns(table, [ColumnChange(path=("p",), new_name="q")])
    assert table.latest().partition_columns == ("q",)
    alter_drop_columns(table, [("s", "y"), ("g",)])
    append(delta.sql("SELECT 1 AS a, 2 AS q, named_struct('x', 3) AS s"), path)
    assert rows(delta, path) == [(1, 2, (3,))]
    alter_drop_constraint(table, "c")
    alter_change_columns(table, [ColumnChange(path=("a",), data_type=LONG)])


def test_change_columns(delta: SparkSession, path: str) -> None:
    """Types only get wider, and only where the table says so; older files are read as the new type."""
    table = new_table(delta, path, "SELECT 1 AS a, array(1) AS l, map('k', 1) AS m, 'x' AS v")
    wider = ColumnChange(path=("a",), data_type=LONG, comment="wide", position=Position(after="l"))
    with pytest.raises(UnsupportedColumnChangeError, match="enableTypeWidening"):
        alter_change_columns(table, [wider])
    alter_set_properties(table, WIDENS)
    alter_change_columns(table, [wider])
    operation, parameters = last(delta, path)
    assert operation == "CHANGE COLUMN"
    assert json.loads(parameters["column"])["type"] == "long"
    assert parameters["position"] == "AFTER l"
    elements = [(("l", "element"), LONG), (("m", "value"), LONG)]
    alter_change_columns(table, [ColumnChange(path=path_, data_type=kind) for path_, kind in elements])
    operation, parameters = last(delta, path)
    assert operation == "CHANGE COLUMNS"
    columns = [(column["name"], column["type"], column["nullable"]) for column in json.loads(parameters["columns"])]
    assert columns == [("l.element", "long", True), ("m.value", "long", True)]
    append(delta.sql("SELECT array(5000000000) AS l, 5000000000 AS a, map('k', 5000000000) AS m, 'y' AS v"), path)
    big = 5_000_000_000
    assert rows(delta, path) == [([1], 1, {"k": 1}, "x"), ([big], big, {"k": big}, "y")]
    assert load(delta, path).schema["a"].metadata == {"comment": "wide"}
    for kind in (INT, STRING):
        with pytest.raises(UnsupportedColumnChangeError, match="cannot be read as"):
            alter_change_columns(table, [ColumnChange(path=("a",), data_type=kind)])
    with pytest.raises(UnsupportedColumnChangeError, match="one by one"):
        alter_change_columns(table, [ColumnChange(path=("l",), data_type=STRING)])
    with pytest.raises(UnsupportedColumnChangeError, match="may not fit"):
        alter_change_columns(table, [ColumnChange(path=("v",), data_type=VarcharType(1))])
    with pytest.raises(UnsupportedColumnChangeError, match="have only a type"):
        alter_change_columns(table, [ColumnChange(path=("l", "element"), comment="x")])


def test_lengths_may_grow(delta: SparkSession, path: str) -> None:
    DeltaTable.create(delta).location(path).addColumn("v", "VARCHAR(2)").execute()
    table = table_ref(delta, path)
    alter_change_columns(table, [ColumnChange(path=("v",), data_type=VarcharType(4))])
    append(delta.sql("SELECT 'abcd' AS v"), path)
    with pytest.raises(UnsupportedColumnChangeError, match=r"varchar\(4\)"):
        alter_change_columns(table, [ColumnChange(path=("v",), data_type=VarcharType(3))])
    alter_change_columns(table, [ColumnChange(path=("v",), data_type=STRING)])
    append(delta.sql("SELECT 'abcdefgh' AS v"), path)


def test_not_null(delta: SparkSession, path: str) -> None:
    table = new_table(delta, path, "SELECT 1 AS a, named_struct('x', 2) AS s, array(named_struct('k', 1)) AS l")
    append(delta.sql("SELECT 2 AS a, CAST(NULL AS STRUCT<x: INT>) AS s"), path)
    alter_change_columns(table, [ColumnChange(path=("a",), nullable=False)])
    with pytest.raises(NotNullViolationError):
        append(delta.sql("SELECT CAST(NULL AS INT) AS a"), path)
    with pytest.raises(ExistingRowsViolateError, match="NOT NULL") as refused:
        alter_change_columns(table, [ColumnChange(path=("s", "x"), nullable=False)])
    assert (refused.value.num_rows, json.loads(refused.value.rows[0])["a"]) == (1, 2)
    with pytest.raises(UnsupportedColumnChangeError, match="arrays"):
        alter_change_columns(table, [ColumnChange(path=("l", "element", "k"), nullable=False)])
    alter_change_columns(table, [ColumnChange(path=("a",), nullable=True)])
    append(delta.sql("SELECT CAST(NULL AS INT) AS a"), path)


def test_defaults(delta: SparkSession, path: str) -> None:
    table = new_table(delta, path, "SELECT 1 AS a, 2 AS b")
    set_default = ColumnChange(path=("b",), default="40 + 2")
    with pytest.raises(DefaultsNotEnabledError):
        alter_change_columns(table, [set_default])
    DeltaTable.forPath(delta, path).addFeatureSupport("allowColumnDefaults")
    alter_change_columns(table, [set_default])
    append(delta.sql("SELECT 3 AS a"), path)
    assert rows(delta, path) == [(1, 2), (3, 42)]
    with pytest.raises(ExpressionTypeError, match="array"):
        alter_change_columns(table, [ColumnChange(path=("b",), default="array(1)")])
    with pytest.raises(UntrustedExpressionError):
        alter_change_columns(table, [ColumnChange(path=("b",), default="rand()")])
    alter_change_columns(table, [ColumnChange(path=("b",), drop_default=True)])
    append(delta.sql("SELECT 4 AS a"), path)
    assert load(delta, path).where("a = 4").first().b is None


def test_add_and_drop_constraints(delta: SparkSession, path: str) -> None:
    """Rows that are there are looked at; NULL counts as a violation; the message shows some of them."""
    table = new_table(delta, path, "SELECT id AS a, id % 3 AS b FROM range(9) UNION ALL SELECT NULL, 1")
    with pytest.raises(ExistingRowsViolateError) as refused:
        alter_add_constraint(table, "big", "a > 2 and b >= 0")
    assert refused.value.num_rows == 4
    assert len(refused.value.rows) == 3
    assert set(json.loads(refused.value.rows[0])) == {"a", "b"}
    assert table.latest().version == 0
    alter_add_constraint(table, "Small", "b < 3")
    assert last(delta, path) == ("ADD CONSTRAINT", {"name": "Small", "expr": "b < 3"})
    assert "checkConstraints" in DeltaTable.forPath(delta, path).detail().first().tableFeatures
    with pytest.raises(CheckConstraintViolationError, match="small"):
        append(delta.sql("SELECT 1L AS a, 3L AS b"), path)
    with pytest.raises(ConstraintExistsError):
        alter_add_constraint(table, "SMALL", "b < 4")
    with pytest.raises(ExpressionTypeError):
        alter_add_constraint(table, "sum", "a + b")
    with pytest.raises(UntrustedExpressionError, match="java_method"):
        alter_add_constraint(table, "evil", "java_method('java.lang.System', 'exit', 1) = a")
    with pytest.raises(ConstraintsLeftError, match="small; drop them first"):
        alter_drop_feature(table, "checkConstraints")
    with pytest.raises(ConstraintNotFoundError, match="it has small"):
        alter_drop_constraint(table, "other")
    assert alter_drop_constraint(table, "other", if_exists=True) is None
    delta.conf.set("spark.databricks.delta.constraints.assumesDropIfExists.enabled", "true")
    assert alter_drop_constraint(table, "other") is None
    delta.conf.unset("spark.databricks.delta.constraints.assumesDropIfExists.enabled")
    alter_drop_constraint(table, "SMALL")
    assert last(delta, path)[1] == {"name": "SMALL", "expr": "b < 3", "existed": "true"}
    alter_drop_feature(table, "checkconstraints")
    assert last(delta, path) == ("DROP FEATURE", {"featureName": "checkConstraints", "truncateHistory": "false"})
    assert "checkConstraints" not in DeltaTable.forPath(delta, path).detail().first().tableFeatures
    append(delta.sql("SELECT 1L AS a, 3L AS b"), path)


def test_a_constraint_and_an_append_at_once(delta: SparkSession, path: str) -> None:
    """Covers race 78 in both orders: every row is checked."""
    table = new_table(delta, path, "SELECT 1L AS id")
    alteration = Alteration(table)
    alteration.rows()
    configuration = {**table.latest().metadata.configuration, "delta.constraints.c": "id < 5"}
    defined = alteration.define(configuration=configuration)
    append(delta.range(7, 8), path)
    with pytest.raises(ConcurrentAppendException):
        alteration.commit("ADD CONSTRAINT", {"name": "c", "expr": "id < 5"}, defined)
    # The first constraint brings its feature along, a second one does not.
    for name, error in [("c", ProtocolChangedException), ("d", MetadataChangedException)]:
        old = table.latest()
        alter_add_constraint(table, name, "id < 10")
        late = table.delta_log.begin_at(Operation(name="WRITE"), snapshot=old)
        with pytest.raises(error):
            late.commit(old.files.to_actions(np.array([True, False])))


def test_cluster_by(delta: SparkSession, path: str, tmp_path: Any) -> None:
    query = "SELECT 1 AS a, named_struct('x', 2) AS s, true AS f, array(1) AS l, 'z' AS late"
    table = new_table(delta, path, query, **{"delta.dataSkippingNumIndexedCols": "4", **MAPPED})
    assert alter_cluster_by(table, []) is None
    alter_cluster_by(table, [("A",), ("s", "x")])
    assert last(delta, path) == ("CLUSTER BY", {"oldClusteringColumns": "", "newClusteringColumns": "A,s.x"})
    assert clustering_columns(table.latest()) == (("a",), ("s", "x"))
    detail = DeltaTable.forPath(delta, path).detail().first()
    assert detail.clusteringColumns == ["a", "s.x"]
    assert {"clustering", "domainMetadata"} <= set(detail.tableFeatures)
    with pytest.raises(ColumnInUseError, match="clustering"):
        alter_drop_columns(table, [("s",)])
    alter_change_columns(table, [ColumnChange(path=("a",), new_name="b")])
    assert clustering_columns(table.latest()) == (("b",), ("s", "x"))
    for columns, condition, reason in [
        ([("l",)], "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", "unordered"),
        ([("s",)], "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", "unordered"),
        ([("b",), ("B",)], "DELTA_DUPLICATE_COLUMNS_FOUND", "b comes twice"),
        ([("b",)] * 5, "DELTA_DUPLICATE_COLUMNS_FOUND", "b comes twice"),
        ([("late",)], "DELTA_CLUSTERING_COLUMN_MISSING_STATS", "statistics"),
        ([("b",), ("s", "x"), ("f",), ("l",), ("late",)], "DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", "4 columns"),
    ]:
        with pytest.raises(InvalidClusteringError, match=reason) as refused:
            alter_cluster_by(table, columns)
        assert refused.value.getCondition() == condition
    alter_cluster_by(table, [])
    assert last(delta, path)[1]["newClusteringColumns"] == ""
    assert clustering_columns(table.latest()) == ()
    other = str(tmp_path / "partitioned")
    delta.sql("SELECT 1 AS a, 2 AS b").write.format("delta").partitionBy("b").save(other)
    with pytest.raises(InvalidClusteringError, match="partitioned"):
        alter_cluster_by(table_ref(delta, other), [("a",)])


def test_sync_identity(delta: SparkSession, path: str) -> None:
    """The column goes on behind the values that were given, and on its own steps."""
    builder = DeltaTable.create(delta).location(path).addColumn("v", "INT")
    builder.addColumn("id", "BIGINT", generatedByDefaultAs=IdentityGenerator(start=1, step=10)).execute()
    table = table_ref(delta, path)
    assert alter_sync_identity(table, ("id",)) is None
    append(delta.sql("SELECT 1 AS v, 55L AS id"), path)
    alter_sync_identity(table, ("ID",))
    assert table.latest().schema["id"].metadata["delta.identity.highWaterMark"] == 61
    append(delta.sql("SELECT 2 AS v"), path)
    assert sorted(row.id for row in load(delta, path).collect()) == [55, 71]
    with pytest.raises(UnsupportedColumnChangeError, match="no identity column"):
        alter_sync_identity(table, ("v",))
    with pytest.raises(UnsupportedColumnChangeError, match="identity"):
        alter_replace_columns(table, StructType([StructField("v", INT)]))


def test_replace_columns(delta: SparkSession, path: str) -> None:
    table = new_table(delta, path, "SELECT 1 AS a, 2 AS b", **WIDENS)

    def columns(**kinds: DataType) -> StructType:
        return StructType([StructField(name, kind) for name, kind in kinds.items()])

    alter_replace_columns(table, columns(c=STRING, B=LONG, a=INT))
    assert last(delta, path)[0] == "REPLACE COLUMNS"
    assert [(field.name, field.dataType) for field in load(delta, path).schema] == [
        ("c", STRING),
        ("b", LONG),
        ("a", INT),
    ]
    assert rows(delta, path) == [(None, 2, 1)]
    with pytest.raises(ColumnMappingNeededError):
        alter_replace_columns(table, columns(a=INT, b=LONG))
    with pytest.raises(UnsupportedColumnChangeError, match="RENAME COLUMN"):
        alter_replace_columns(table, columns(a=INT, b=LONG, d=STRING))
    alter_set_properties(table, MAPPED)
    alter_replace_columns(table, columns(a=INT, b=LONG))
    assert rows(delta, path) == [(1, 2)]


def test_protocol_calls(delta: SparkSession, path: str) -> None:
    table = new_table(delta, path, "SELECT 1 AS a", **{"delta.enableDeletionVectors": "false"})
    made = DeltaTable.forPath(delta, path)
    made.upgradeTableProtocol(1, 4)
    assert table.latest().protocol.min_writer_version == 4
    version = table.latest().version
    made.upgradeTableProtocol(1, 3)
    made.upgradeTableProtocol(1, 1)
    assert table.latest().version == version, "the table has all of it"
    newest = new_table(delta, f"{path} of defaults", "SELECT 1 AS a")
    for _ in range(2):
        DeltaTable.forPath(delta, f"{path} of defaults").upgradeTableProtocol(1, 3)
    assert (newest.latest().version, newest.latest().protocol.min_writer_version) == (1, 7)
    assert "checkConstraints" in (newest.latest().protocol.writer_features or ()), "as writers of version 3 know it"
    with pytest.raises(InvalidPropertyError):
        made.upgradeTableProtocol(9, 9)
    with pytest.raises(InvalidArgumentError, match="readerVersion"):
        made.upgradeTableProtocol("1", 3)  # type: ignore[arg-type]
    made.addFeatureSupport("vacuumProtocolCheck")
    assert table.latest().protocol.reader_features == ["vacuumProtocolCheck"]
    made.addFeatureSupport("inCommitTimestamp")
    alter_set_properties(table, {"delta.enableInCommitTimestamps": "true"})
    with pytest.raises(UnknownFeatureError, match="deletionVectors"):
        made.addFeatureSupport("deletionVector")
    with pytest.raises(FeatureNotSupportedByTableError):
        made.dropFeatureSupport("deletionVectors")
    with pytest.raises(UnknownFeatureDropError):
        made.dropFeatureSupport("noSuchFeature")
    with pytest.raises(PermanentFeatureError, match="stays"):
        made.dropFeatureSupport("generatedColumns")
    with pytest.raises(FeatureDropError, match="TRUNCATE HISTORY"):
        made.dropFeatureSupport("inCommitTimestamp", True)
    made.dropFeatureSupport("vacuumProtocolCheck")
    made.dropFeatureSupport("inCommitTimestamp")
    snapshot = table.latest()
    assert not any("ommitTimestamp" in name for name in snapshot.metadata.configuration)
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 4)
    made.addFeatureSupport("deletionVectors")
    append(delta.sql("SELECT 2 AS a"), path)


def test_the_catalog_follows(delta: SparkSession, name: str) -> None:
    delta.sql("SELECT 1 AS a").write.format("delta").saveAsTable(name)
    alter_add_columns(table_named(delta_session(delta), name), [NewColumn(path=("b",), data_type=STRING)])
    assert delta.table(name).columns == ["a", "b"]
    assert [row.col_name for row in delta.sql(f"DESCRIBE TABLE {name}").collect()][:2] == ["a", "b"]
