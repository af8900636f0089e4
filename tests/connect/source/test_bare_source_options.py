"""What the source `delta` refuses in a session that was not enabled. No Spark needed."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StructType

from anabranch.connect.python_source.delta_source import DeltaDataSource
from anabranch.errors.arguments import SessionNotEnabledError


@pytest.mark.parametrize("option", ["replaceWhere", "replaceOn", "REPLACEUSING"])
def test_an_overwrite_of_some_rows_never_becomes_one_of_all(option: str) -> None:
    source = DeltaDataSource({"path": "/nowhere", option: "id = 1"})
    with pytest.raises(SessionNotEnabledError, match="replace"):
        source.writer(StructType().add("id", LongType()), True)
