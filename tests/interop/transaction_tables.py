"""Tables whose versions were made by transactions of several statements, for others to read.

The same statements, each as a commit of its own, on a second table say which rows a version must have.
"""

from __future__ import annotations

import dataclasses

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.table_transactions import transaction
from interop.arrow_rows import Rows, rows_of

FEED = "'delta.enableChangeDataFeed' = 'true'"
TRACKED = "'delta.enableRowTracking' = 'true'"
KINDS = {
    "vectors": ("", "", f"{FEED}, {TRACKED}, 'delta.enableDeletionVectors' = 'true'"),
    "copies": ("", "", f"{FEED}, {TRACKED}, 'delta.enableDeletionVectors' = 'false'"),
    "identity": ("", ", k BIGINT GENERATED ALWAYS AS IDENTITY", f"{TRACKED}, 'delta.enableDeletionVectors' = 'true'"),
    "partitions": ("PARTITIONED BY (part)", "", f"{FEED}, 'delta.enableDeletionVectors' = 'true'"),
    "mapping": ("", "", f"{FEED}, 'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"),
}
"""The layout, further columns and the properties of the tables."""
FED = [kind for kind, (_, _, properties) in KINDS.items() if FEED in properties]
"""Those with a change feed."""
INSERT = "INSERT INTO {t} (id, v, part) "
GROUPS = (
    (INSERT + "SELECT id, id * 10, id % 2 FROM range(0, 20, 1, 1)",),
    (
        INSERT + "VALUES (100, 1, 0), (101, 1, 1), (102, 1, 1)",
        "UPDATE {t} SET v = v + 1000 WHERE id IN (1, 2)",
        "DELETE FROM {t} WHERE id = 3",
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (5L), (6L), (50L) AS s(id)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 5 THEN UPDATE SET v = 55 WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT (id, v, part) VALUES (s.id, 500, 0)",
    ),
    (
        # Rows that this transaction, or the one before, has written.
        INSERT + "VALUES (200, 1, 0), (201, 1, 1)",
        "UPDATE {t} SET v = 7 WHERE id IN (2, 100, 200)",
        "DELETE FROM {t} WHERE id IN (1, 101, 201)",
        "UPDATE {t} SET part = 7, v = v + 1 WHERE id IN (7, 200)",
    ),
    # A second file on tables without vectors, too, so that OPTIMIZE makes a version of all of them.
    (INSERT + "VALUES (60, 1, 0)",),
    ("OPTIMIZE {t}",),
    (
        "DELETE FROM {t} WHERE part = 1 AND id < 12",
        "UPDATE {t} SET v = -v WHERE id >= 17",
        "MERGE INTO {t} t USING (SELECT * FROM VALUES (8L), (300L) AS s(id)) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v, part) VALUES (s.id, 3, 1)",
    ),
)
"""The statements of each version. A group of several is a transaction."""
OPERATIONS = ("CREATE TABLE", "WRITE", "TRANSACTION", "TRANSACTION", "WRITE", "OPTIMIZE", "TRANSACTION")
COLUMNS = ("id", "v", "part")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTable:
    root: str
    rows: tuple[Rows, ...]
    """What the statements, each committed alone, leave at each version, in `COLUMNS`."""


def write_table(spark: SparkSession, kind: str, folder: str) -> TransactionTable:
    """Write the table of this kind."""
    layout, columns, properties = KINDS[kind]
    roots = [f"{folder}/transactions", f"{folder}/alone"]
    for root in roots:
        spark.sql(
            f"CREATE TABLE delta.`{root}` (id BIGINT, v BIGINT, part BIGINT{columns}) USING delta {layout} "
            f"TBLPROPERTIES ({properties})"
        )
    rows = [_rows(spark, roots[1])]
    for group in GROUPS:
        for statement in group:
            spark.sql(statement.format(t=f"delta.`{roots[1]}`"))
        rows.append(_rows(spark, roots[1]))
        statements = [statement.format(t=f"delta.`{roots[0]}`") for statement in group]
        if len(group) == 1:
            spark.sql(statements[0])
            continue
        with transaction(spark, roots[0]):
            for statement in statements:
                spark.sql(statement)
    return TransactionTable(root=roots[0], rows=tuple(rows))


def _rows(spark: SparkSession, root: str) -> Rows:
    return rows_of(spark.table(f"delta.`{root}`").select(*COLUMNS).toArrow(), COLUMNS)


def after_changes(rows: Rows, changes: pa.Table) -> Rows:
    """The rows of a version, from those of the version before and the change feed between the two."""
    kinds = changes["_change_type"].to_pylist()
    after = Rows(rows)
    for kind, row in zip(kinds, changes.select(COLUMNS).to_pylist(), strict=True):
        after[tuple(row.values())] += -1 if kind in {"delete", "update_preimage"} else 1
    assert min(after.values()) >= 0, "the feed deletes a row that the version before does not have"
    return +after
