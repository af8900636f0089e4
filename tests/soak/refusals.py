"""Which errors a statement of the soak may end with."""

from __future__ import annotations

from typing import Any

from soak.model import State, Statement

CONFLICTS = frozenset(
    {
        "DELTA_CONCURRENT_WRITE",
        "DELTA_CONCURRENT_APPEND",
        "DELTA_CONCURRENT_DELETE_READ",
        "DELTA_CONCURRENT_DELETE_DELETE",
        "DELTA_METADATA_CHANGED",
        "DELTA_CONCURRENT_TRANSACTION",
        "DELTA_PROTOCOL_CHANGED",
    }
)
OTHER_COLUMNS = frozenset(
    {
        "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION",
        "FIELD_NOT_FOUND",
        "DELTA_COLUMN_NOT_FOUND",
        "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
        "DELTA_INVALID_ASSIGNMENT",
    }
)
"""A statement names a column that was there when it was thought of."""
COLUMN_THERE = frozenset({"FIELD_ALREADY_EXISTS", "DELTA_DUPLICATE_COLUMNS_FOUND"})
LAYOUT = ("used by the partitioning of the table", "used by the clustering of the table")
"""By what a column may be needed that the model does not have."""
CHANGED_MEANWHILE = frozenset({"DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"})
"""Spark resolved the columns at one version, and they are others at the one that the statement works on."""
FITS_NOT = {
    **dict.fromkeys(
        ("insert", "insert_select", "update", "delete", "merge", "replace_where", "overwrite"),
        OTHER_COLUMNS | {"DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "DELTA_METADATA_MISMATCH"},
    ),
    "overwrite_schema": frozenset(
        {
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
            "DELTA_UNSUPPORTED_EXPRESSION_IN_METADATA",
            "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
        }
    ),
    "insert_merging": frozenset({"DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"}),
    "add_constraint": OTHER_COLUMNS | {"DELTA_CONSTRAINT_ALREADY_EXISTS", "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"},
    "add_column": COLUMN_THERE,
    "drop_column": OTHER_COLUMNS
    | {"DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN"},
    "rename_column": OTHER_COLUMNS | COLUMN_THERE | {"DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"},
    "cluster": OTHER_COLUMNS,
}
"""Conditions by kind that say that the statement does not fit the rows or the columns: the model must agree."""
FEATURES_ASK = {
    "replace_where": frozenset({"DELTA_MISSING_PARTITION_COLUMN"}),
    "insert_merging": frozenset({"DELTA_MISSING_PARTITION_COLUMN"}),
    "overwrite": frozenset({"DELTA_MISSING_PARTITION_COLUMN"}),
    "drop_feature": frozenset(
        {
            "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
            "DELTA_FEATURE_DROP_UNSUPPORTED",
            "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE",
            "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE",
            "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST",
        }
    ),
    "drop_column": frozenset({"DELTA_UNSUPPORTED_DROP_COLUMN"}),
    "rename_column": frozenset({"DELTA_UNSUPPORTED_RENAME_COLUMN"}),
    "cluster": frozenset(
        {"DELTA_CLUSTERING_COLUMN_MISSING_STATS", "DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED"}
    ),
    "restore": frozenset({"DELTA_RESTORE_FILES_MISSING"}),
    "optimize": frozenset({"DELTA_CLUSTERING_WITH_ZORDER_BY", "DELTA_ZORDERING_ON_COLUMN_WITHOUT_STATS"}),
}
"""Conditions by kind that hang on properties and features, which the model has not."""


def problem_of_refusal(
    statement: Statement, error: dict[str, Any], winners: list[dict[str, Any]], *, seen: list[State], fits_always: bool
) -> str | None:
    """None where the error is one that the statement may meet.

    `winners` are the commits that landed while it ran, `seen` the versions that it may have worked on; `fits_always`:
    the model says it could be carried out at every one.
    """
    condition = error.get("condition")
    if not condition:
        return "an error without a name"
    if condition in CONFLICTS:
        return _problem_of_conflict(error, winners)
    if condition in CHANGED_MEANWHILE:
        return None if len({state.columns for state in seen}) > 1 else "the columns were the same all the time"
    if statement["kind"] == "drop_column" and any(layout in str(error.get("message")) for layout in LAYOUT):
        return None
    if condition in FITS_NOT.get(statement["kind"], frozenset()):
        return "it fits every version there was" if fits_always else None
    if condition in FEATURES_ASK.get(statement["kind"], frozenset()):
        return None
    return "an error that it should not meet"


def _problem_of_conflict(error: dict[str, Any], winners: list[dict[str, Any]]) -> str | None:
    """It names a commit that landed meanwhile, and what that was."""
    if error.get("version") is None:
        return None if winners else "a conflict with nobody"
    named = [info for info in winners if info["version"] == error["version"]]
    if not named:
        return "a conflict with a commit that was there before, or is not there"
    if named[0].get("operation") != error["operation"]:
        return f"a conflict with {named[0].get('operation')}"
    return None
