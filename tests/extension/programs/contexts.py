"""A context that is stopped, and the next one in the same JVM."""

from __future__ import annotations

import sys

from start import FOLDER, started

import anabranch

path = f"{FOLDER}/t"
for number in range(3):
    spark = started()
    imported = set(sys.modules)
    anabranch.enable(spark)
    if number == 0:
        # No query has run yet. What PySpark imports for a session is its own.
        assert not {"pyarrow", "obstore", "anabranch.commands"} & (sys.modules.keys() - imported)
    spark.range(5).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 5 * (number + 1)
    beside = spark.newSession()
    assert beside.sql(f"DELETE FROM delta.`{path}` WHERE id < 0").collect()[0][0] == 0
    assert beside.sql(f"SELECT max(id) FROM delta.`{path}`").collect() == [(4,)]
    assert spark.sparkContext is not None
    spark.stop()
print("done")
