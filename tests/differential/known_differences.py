"""What gives something else with anabranch than with the jar, each with the reason."""

from __future__ import annotations

SPARKS = "Spark's own analyzer answers here; the jar has a check and a condition of its own"
UNNAMED = "the jar's condition is of DESCRIBE HISTORY alone; here all statements say the same of what is no Delta table"

_DIFFERENCES: dict[str, dict[str, str]] = {
    "rows: DELETE": {
        "DELETE FROM t WHERE a IN (SELECT id, id FROM range(1))": SPARKS,
        "at the end: >>> history('parquet_table')": UNNAMED,
    },
    "rows: UPDATE": {
        "UPDATE t SET a = explode(l)": SPARKS,
        "UPDATE t SET a = array(1)": "a type that cannot be had is told as by every other write",
        "at the end: >>> history('parquet_table')": UNNAMED,
    },
    "rows: MERGE": dict.fromkeys(
        [
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET nothing = 1",
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = nothing",
            "MERGE INTO t USING s ON t.k = s.nothing WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING s ON max(t.k) = 1 WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING s ON t.k WHEN MATCHED THEN DELETE",
            "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND max(s.k) = 1 THEN DELETE",
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k, nothing) VALUES (1, 2)",
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (t.k)",
            "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = s.v",
        ],
        SPARKS,
    ),
}
KNOWN = {(program, step): reason for program, steps in _DIFFERENCES.items() for step, reason in steps.items()}
"""By program, as `str` of it has it, and step."""
