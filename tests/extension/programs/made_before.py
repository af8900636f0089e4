"""Sessions made before: each by its own `enable`; one that was not used yet finds the extensions itself."""

from __future__ import annotations

from start import FOLDER, started

import anabranch

path = f"{FOLDER}/t"
spark = started()
used, unused = spark.newSession(), spark.newSession()
assert used.range(3).count() == 3
anabranch.enable(spark)
spark.range(5).write.format("delta").save(path)
spark.sql(f"CREATE TABLE t USING delta LOCATION '{path}'")

for session in (used, unused):
    anabranch.enable(session)
    assert session.table("t").count() == 5
    assert session.sql("DELETE FROM t WHERE id = 77").collect() == [(0,)]
    assert session.newSession().table("t").count() == 5
print("done")
