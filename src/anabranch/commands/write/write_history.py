"""What the commit of a write records about it: operation, metrics, tags."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.commands.data_files import rows_kept_tags
from anabranch.commands.dml.row_deletion import RowChanges
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_options import SaveMode, WriteOptions
from anabranch.schema.enforcement import WriteApi
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.user_condition import text_of
from anabranch.spark.engine import WrittenFiles
from anabranch.transactions.proposed_commit import Operation

_OUTPUT_MODES = {SaveMode.APPEND: "Append", SaveMode.OVERWRITE: "Complete"}


def write_operation(options: WriteOptions, api: WriteApi, snapshot: Snapshot | None, *, is_managed: bool) -> Operation:
    """The name and the parameters of the operation in the history of the table.

    `is_managed` says whether the catalog decides where the table is.
    """
    parameters: dict[str, object] = {}
    if api is WriteApi.STREAM:
        assert options.application is not None
        query_id, batch_id = options.application
        parameters = {"outputMode": _OUTPUT_MODES[options.mode], "queryId": query_id, "epochId": str(batch_id)}
        return Operation(name="STREAMING UPDATE", parameters=parameters, user_metadata=options.user_metadata)
    name = "WRITE"
    chooses = options.replace_where is not None or options.replaced is not None
    if api is WriteApi.SAVE_AS_TABLE and (snapshot is None or options.mode is SaveMode.OVERWRITE) and not chooses:
        replaces = options.mode is SaveMode.OVERWRITE
        name = "CREATE OR REPLACE TABLE AS SELECT" if replaces else "CREATE TABLE AS SELECT"
        parameters["isManaged"] = is_managed
        parameters["properties"] = dict(options.table_properties)
    else:
        parameters["mode"] = options.mode.delta_name
    parameters["partitionBy"] = list(options.partition_by)
    if options.replace_where is not None:
        parameters["predicate"] = text_of(options.replace_where)
    if options.replaced is not None:
        parameters.update(options.replaced.log_parameters)
    for key, value in (
        ("isDynamicPartitionOverwrite", options.dynamic_partition_overwrite and options.mode is SaveMode.OVERWRITE),
        ("canOverwriteSchema", options.overwrite_schema),
        ("canMergeSchema", options.merge_schema),
    ):
        if value:
            parameters[key] = True
    return Operation(name=name, parameters=parameters, user_metadata=options.user_metadata)


def write_metrics(written: WrittenFiles, replaced: RowChanges) -> dict[str, int]:
    """The metrics of the rows that a write adds and of those that it replaces, by Delta's names."""
    files = [*written.adds, *(replaced.copied.adds if replaced.copied is not None else ())]
    removed = replaced.metrics()
    metrics = {
        "numFiles": len(files),
        "numOutputRows": written.num_rows + removed["numCopiedRows"],
        "numOutputBytes": sum(add.size for add in files),
    }
    names = ["numRemovedFiles", "numRemovedBytes"] if replaced.removes else []
    if replaced.num_rows is not None:
        removed["numDeletedRows"] = replaced.num_rows
        names = ["numRemovedFiles", "numRemovedBytes", "numDeletedRows", "numCopiedRows", "numAddedChangeFiles"]
    names += [name for name in removed if name.startswith("numDeletionVectors") and removed[name]]
    return metrics | {name: removed[name] for name in names}


def stream_metrics(metrics: Mapping[str, int]) -> dict[str, int]:
    """The metrics of a batch of a stream, by the names that Delta uses for these."""
    removed = {"numRemovedFiles": metrics.get("numRemovedFiles", 0)}
    return {"numAddedFiles": metrics["numFiles"], **removed} | {
        name: metrics[name] for name in ("numOutputRows", "numOutputBytes")
    }


def write_tags(table: TableRef, options: WriteOptions, snapshot: Snapshot | None) -> dict[str, str]:
    """The tags that say that rows keep their ids, for a write that replaces only the rows of a condition."""
    chooses = options.replace_where is not None or options.replaced is not None
    return rows_kept_tags(table, snapshot) if snapshot is not None and chooses and options.data_change else {}
