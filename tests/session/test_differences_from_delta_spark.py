"""What the page for users of delta-spark says is different: each sentence as it is there, beside what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.tables import RestoreBeyondRetentionError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "migrate-from-delta-spark.md"
TOLD = [
    "if two rows of the source match one row of the table, and the WHEN conditions leave only one of the two, that one is used",
    "of DELETE and UPDATE may call functions such as `rand()`",
    "here only RESTORE reads that setting",
    "keep the blanks of their text in the table's properties",
    "has no section `# Column Default Values`; SHOW CREATE TABLE shows the defaults",
]
WITHIN_RETENTION = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"


def test_the_page_is_right(delta: SparkSession, name: str) -> None:
    """Covers bug B92: five differences were on no page."""
    page = re.sub(r"\s+", " ", PAGE.read_text("utf-8"))
    assert [sentence for sentence in TOLD if sentence not in page] == []
    delta.sql(
        f"CREATE TABLE {name} (id INT, n INT DEFAULT 7) USING delta TBLPROPERTIES ("
        "'delta.feature.allowColumnDefaults' = 'supported', 'delta.deletedFileRetentionDuration' = 'interval 0 seconds')"
    )
    delta.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
    merge = f"MERGE INTO {name} t USING (SELECT 1 AS id, 5 AS n UNION ALL SELECT 1, 6) s ON t.id = s.id"
    assert delta.sql(f"{merge} WHEN MATCHED AND s.n = 6 THEN UPDATE SET n = s.n").first().num_updated_rows == 1  # type: ignore[union-attr]
    assert delta.sql(f"UPDATE {name} SET n = 9 WHERE rand() >= 0 AND id = 1").first() == (1,)
    assert delta.sql(f"DELETE FROM {name} WHERE rand() < 0").first() == (0,)
    delta.conf.set(WITHIN_RETENTION, "true")
    try:
        assert delta.sql(f"SELECT * FROM {name} VERSION AS OF 1").count() == 2
        with pytest.raises(RestoreBeyondRetentionError):
            delta.sql(f"RESTORE TABLE {name} TO VERSION AS OF 1")
    finally:
        delta.conf.unset(WITHIN_RETENTION)
    delta.sql(f"ALTER TABLE {name} ADD CONSTRAINT some CHECK (id  >  0)")
    detail = DeltaTable.forName(delta, name).detail().first()
    assert detail is not None
    assert detail.properties["delta.constraints.some"] == "id  >  0"
    described = [row.col_name for row in delta.sql(f"DESCRIBE EXTENDED {name}").collect()]
    assert "# Column Default Values" not in described
    assert "n INT DEFAULT 7" in delta.sql(f"SHOW CREATE TABLE {name}").first().createtab_stmt  # type: ignore[union-attr]
