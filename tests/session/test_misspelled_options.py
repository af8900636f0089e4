"""Options whose names are nearly those of Delta's, in every place that takes options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidOptionError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark


def test_slips_are_refused_wherever_options_are_taken(
    delta: SparkSession, path: str, name: str, tmp_path: Path
) -> None:
    """Covers bug B67: they were ignored, and the newest rows read, or all rows replaced."""
    rows, new = delta.range(3), f"{name}_new"
    rows.write.format("delta").options(**{"parquet.block.size": "1048576", "compression": "gzip"}).save(path)
    delta.sql(f"CREATE TABLE {name} USING delta LOCATION '{path}'")
    read, write, stream = delta.read.format("delta"), rows.write.format("delta"), delta.readStream.format("delta")
    sink = stream.load(path).writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
    refused: list[tuple[str, Callable[[], object]]] = [
        ("versionAsOf", lambda: read.option("versionAsOff", 0).load(path).collect()),
        ("versionAsOf", lambda: delta.read.option("versionAsOff", 0).table(name).collect()),
        ("versionAsOf", lambda: delta.sql(f"SELECT * FROM {name} WITH (versionAsOff = 0)").collect()),
        ("startingVersion", lambda: stream.option("startVersion", 0).load(path).schema),
        ("startingVersion", lambda: delta.readStream.option("startVersion", 0).table(name).schema),
        ("replaceWhere", lambda: write.mode("overwrite").option("replaceWher", "id = 1").save(path)),
        ("replaceWhere", lambda: write.mode("overwrite").option("replaceWher", "id = 1").saveAsTable(name)),
        ("userMetadata", lambda: rows.write.format("delta").option("userMetadat", "x").saveAsTable(new)),
        ("mergeSchema", lambda: rows.writeTo(name).option("mergeSchem", "true").append()),
        ("optimizeWrite", lambda: rows.writeTo(new).using("delta").option("optimizeWrit", 1).create()),
        ("mergeSchema", lambda: delta.sql(f"INSERT INTO {name} WITH (mergeSchem = true) VALUES (1)")),
        ("mergeSchema", lambda: sink.option("mergeSchem", "true").start(str(tmp_path / "out"))),
        (
            "userMetadata",
            lambda: delta.sql(f"CREATE TABLE {new} USING delta OPTIONS (userMetadat 1) AS VALUES 1"),
        ),
        ("userMetadata", lambda: delta.sql(f"CREATE TABLE {new} (id INT) USING delta OPTIONS (userMetadat 1)")),
    ]
    for meant, statement in refused:
        with pytest.raises(InvalidOptionError, match=rf"did you mean {meant}\?"):
            statement()
    assert DeltaTable.forPath(delta, path).history().count() == 1
    assert not delta.catalog.tableExists(new)
    assert delta.read.options(recursiveFileLookup="true", header="true").table(name).count() == 3
