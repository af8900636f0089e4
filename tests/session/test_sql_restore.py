"""RESTORE by SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidTimestampError, SqlSyntaxError
from anabranch.errors.tables import NotADeltaTableError
from session.documented import statement

pytestmark = pytest.mark.spark


@statement("RESTORE [TABLE] t [TO] {VERSION | TIMESTAMP} AS OF x")
def test_restore(delta: SparkSession, name: str) -> None:
    """Restores the rows, columns, properties and clustering of an earlier version. If VACUUM has deleted files of that
    version, the error names some of them."""
    delta.sql(f"CREATE TABLE {name} (id INT) USING delta")
    delta.sql(f"INSERT INTO {name} VALUES (1)")
    delta.sql(f"INSERT INTO {name} VALUES (2)")
    result = delta.sql(f"RESTORE TABLE {name} TO VERSION AS OF 1").first()
    assert (result.num_removed_files, result.num_restored_files) == (1, 0)
    assert delta.table(name).collect() == [(1,)]
    history = delta.sql(f"DESCRIBE HISTORY {name}").collect()
    written = next(row.timestamp for row in history if row.version == 2)
    delta.sql(f"RESTORE {name} TIMESTAMP AS OF '{written:%Y-%m-%d %H:%M:%S.%f}'")
    assert sorted(delta.table(name).collect()) == [(1,), (2,)]
    latest = delta.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first()
    assert latest.operation == "RESTORE"
    assert latest.operationParameters["timestamp"].startswith(f"{written:%Y-%m-%d %H:%M:%S}.")
    for mistake in (f"RESTORE {name}", f"RESTORE {name} TO VERSION AS OF", f"RESTORE {name} TO VERSION AS OF 1 now"):
        with pytest.raises(SqlSyntaxError):
            delta.sql(mistake)
    with pytest.raises(InvalidTimestampError, match="soon"):
        delta.sql(f"RESTORE {name} TO TIMESTAMP AS OF 'soon'")
    with pytest.raises(NotADeltaTableError):
        delta.sql(f"RESTORE {name}_not TO VERSION AS OF 0")
