"""Columns whose values the table makes."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField

from anabranch.errors.tables import IdentityStepError, InvalidIdentityColumnError
from anabranch.schema.computed_columns import identity_column


@pytest.mark.parametrize("nullable", [True, False])
def test_identity_columns_take_nulls_where_they_are_declared_to(nullable: bool) -> None:
    field = identity_column(StructField("id", LongType(), nullable), start=1, step=1, allow_explicit=True)
    assert field.nullable is nullable


def test_identity_columns_count_in_steps() -> None:
    with pytest.raises(IdentityStepError, match="has step 0") as refused:
        identity_column(StructField("id", LongType()), start=1, step=0, allow_explicit=False)
    assert refused.value.getCondition() == "DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP"
    with pytest.raises(InvalidIdentityColumnError):
        identity_column(StructField("id", StringType()), start=1, step=1, allow_explicit=False)
