"""OPTIMIZE of clustered tables."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.maintenance import ClusteredTableError, ClusteredTableZOrderError, FullNeedsClusteringError
from session.documented import statement

pytestmark = pytest.mark.spark


@statement("OPTIMIZE t [FULL], of a table with clustering columns")
def test_clustered(delta: SparkSession, path: str) -> None:
    """Orders the rows that were written since the last run by the clustering columns. With FULL, it also reorders files
    that were ordered by other columns."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id INT, word STRING) USING delta CLUSTER BY (id, word)")
    delta.sql(f"INSERT INTO {table} VALUES (3, 'a'), (1, 'b')")
    assert delta.sql(f"OPTIMIZE {table}").first().metrics.clusteringStats.numOutputZCubes == 1
    for clause, error in (("WHERE id = 1", ClusteredTableError), ("ZORDER BY (id)", ClusteredTableZOrderError)):
        with pytest.raises(error):
            delta.sql(f"OPTIMIZE {table} {clause}")

    delta.sql(f"ALTER TABLE {table} CLUSTER BY (word)")
    assert delta.sql(f"OPTIMIZE {table}").first().metrics.numFilesAdded == 0
    assert delta.sql(f"OPTIMIZE {table} FULL").first().metrics.numFilesAdded == 1
    done = delta.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()
    assert (done.operationParameters["clusterBy"], done.operationParameters["isFull"]) == ('["word"]', "true")

    delta.sql(f"ALTER TABLE {table} CLUSTER BY NONE")
    with pytest.raises(FullNeedsClusteringError):
        delta.sql(f"OPTIMIZE {table} FULL")
    assert sorted(delta.sql(f"SELECT * FROM {table}").collect()) == [(1, "b"), (3, "a")]
