"""What a write would do with columns that another commit has added: planned again, it has the same values or not."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from anabranch.commands.write.write_target import rows_with_columns
from anabranch.protocol.actions import Metadata
from anabranch.schema.enforcement import WritePlan, plan_write
from anabranch.schema.serialization import parse_schema
from anabranch.schema.write_rules import WriteApi, rules_for
from anabranch.transactions.proposed_commit import RowsWithColumns
from transactions.table_on_memory import metadata

TABLE = StructType([StructField("id", LongType()), StructField("s", StructType([StructField("x", LongType())]))])
MORE = StructField("more", LongType())
LAST = StructType([*TABLE.fields, MORE])
FIRST = StructType([MORE, *TABLE.fields])
NESTED = StructType([TABLE["id"], StructField("s", StructType([StructField("x", LongType()), MORE]))])
BY_POSITION = {WriteApi.INSERT_INTO, WriteApi.SQL_BY_POSITION}


def rows_of(api: WriteApi, data: StructType, schema: StructType) -> RowsWithColumns:
    rules = rules_for(api, overwriting=False, merge_schema=False, overwrite_schema=False)

    def planned(described: Metadata) -> WritePlan:
        return plan_write(data, parse_schema(described.schema_string, "t"), rules, table="t", constraints={})

    return rows_with_columns(planned(metadata(TABLE)), planned, metadata(schema))


@pytest.mark.parametrize("api", WriteApi)
@pytest.mark.parametrize("schema", [LAST, FIRST, NESTED], ids=["last", "first", "in a struct"])
def test_a_write_by_name_leaves_new_columns_out(api: WriteApi, schema: StructType) -> None:
    """By position its values would go to other columns, or be too few. A struct is not compared with the wider one."""
    same = api not in BY_POSITION and schema is not NESTED
    assert rows_of(api, TABLE, schema) is (RowsWithColumns.SAME if same else RowsWithColumns.UNKNOWN)


def test_a_write_that_lacks_the_struct_to_which_a_field_was_added() -> None:
    data = StructType([TABLE["id"]])
    assert rows_of(WriteApi.SAVE, data, LAST) is RowsWithColumns.SAME


def test_columns_that_are_filled_otherwise() -> None:
    """These are other changes of the schema, too; only a column without any value leaves the rows the same."""
    default = StructField("more", LongType(), metadata={"CURRENT_DEFAULT": "1"})
    retyped = StructType([StructField("id", StringType()), TABLE["s"]])
    assert rows_of(WriteApi.SAVE_AS_TABLE, TABLE, StructType([*TABLE.fields, default])) is RowsWithColumns.UNKNOWN
    assert rows_of(WriteApi.SAVE_AS_TABLE, TABLE, retyped) is RowsWithColumns.UNKNOWN
