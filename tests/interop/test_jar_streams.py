"""A stream from a table into a table that the jar and we go on with by turns, from one checkpoint and one schema log."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from interop.jar import JARS, Jar, JarError
from interop.jar_program import copy

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]

EVOLVED = "DELTA_STREAMING_METADATA_EVOLUTION"
NOT_ALLOWED = "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"


@pytest.mark.parametrize("begins", ["jar", "ours"])
def test_by_turns_while_columns_are_renamed_and_dropped(
    jar: Jar, native: SparkSession, tmp_path: Path, begins: str
) -> None:
    """Each change is come to by one of the two and passed by the other."""
    source, target, checkpoint = (str(tmp_path / name) for name in ("source", "target", "checkpoint"))
    turns: list[Callable[..., None]] = [
        lambda **options: jar.copy(source, target, checkpoint, schemaTrackingLocation=checkpoint, **options),
        lambda **options: ours(schemaTrackingLocation=checkpoint, **options),
    ]

    def ours(**options: Any) -> None:
        try:
            copy(native, source, target, checkpoint, options)
        except StreamingQueryException as failure:
            raise JarError(str(failure)) from failure

    one, other = turns if begins == "jar" else turns[::-1]
    jar.run(
        f"CREATE TABLE delta.`{source}` (id BIGINT, v STRING, p INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        f"INSERT INTO delta.`{source}` VALUES (1, 'a', 7)",
    )
    one()
    native.sql(f"INSERT INTO delta.`{source}` VALUES (2, 'b', 7)")
    other()
    native.sql(f"ALTER TABLE delta.`{source}` RENAME COLUMN v TO w")
    jar.run(f"INSERT INTO delta.`{source}` VALUES (3, 'c', 8)")
    with pytest.raises(JarError, match=EVOLVED):
        one()
    for turn in turns:
        with pytest.raises(JarError, match=NOT_ALLOWED):
            turn()
    other(allowSourceColumnRename="always")
    jar.run(f"ALTER TABLE delta.`{source}` DROP COLUMN w", f"ALTER TABLE delta.`{source}` RENAME COLUMN p TO q")
    native.sql(f"INSERT INTO delta.`{source}` VALUES (4, 9)")
    # The permission is required at each start, until the next change is in the schema log.
    with pytest.raises(JarError, match=NOT_ALLOWED):
        other()
    with pytest.raises(JarError, match=EVOLVED):
        other(allowSourceColumnRename="always")
    with pytest.raises(JarError, match=NOT_ALLOWED):
        one(allowSourceColumnDrop="always")
    one(allowSourceColumnDrop="always", allowSourceColumnRename="always")
    jar.run(f"INSERT INTO delta.`{source}` VALUES (5, 9)")
    other(allowSourceColumnDrop="always", allowSourceColumnRename="always")
    rows = native.read.format("delta").load(target).select("id", "v", "p", "w", "q").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [
        (1, "a", 7, None, None),
        (2, "b", 7, None, None),
        (3, None, 8, "c", None),
        (4, None, None, None, 9),
        (5, None, None, None, 9),
    ]
