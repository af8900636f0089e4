"""`anabranch files`: the live files of a table, and which of them a condition would read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cli.output import console, count, plain, size, table_of
from anabranch.cli.rows.condition_filter import Condition, column_paths, condition_on
from anabranch.predicates.expressions import ColumnPath, column_text
from anabranch.schema.column_mapping import physical_paths
from anabranch.snapshot.snapshot import Snapshot

FILES_SHOWN = 100
VALUE_CHARACTERS = 40


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One live file."""

    path: str
    size_bytes: int
    rows: int | None
    """Hidden ones included; None where the file does not say."""
    hidden_rows: int
    partition: Mapping[str, str | None]
    """By logical name."""
    bounds: Mapping[str, tuple[Any, Any]]
    """Minimum and maximum of each column asked for, as in the statistics; None for what they do not say."""
    is_read: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """Live files of one version, seen through a condition."""

    snapshot: Snapshot
    condition: Condition
    columns: tuple[ColumnPath, ...]
    """Whose bounds are told."""
    files: tuple[FileFacts, ...]
    """Those read first; not all of them where a limit was set."""
    rows: int | None
    """In the files that are read, hidden ones left out; None where one does not say."""

    @property
    def read(self) -> int:
        return int(self.condition.may_match.sum())

    @property
    def total(self) -> int:
        return self.snapshot.files.count

    @property
    def read_bytes(self) -> int:
        sizes = self.snapshot.files.columns("size")["size"]
        return int(pc.sum(sizes.filter(pa.array(self.condition.may_match))).as_py() or 0)


def list_files(snapshot: Snapshot, *, where: str | None, columns: str | None, limit: int | None) -> FileList:
    """The files, those that the condition reads first. Raises `PredicateSyntaxError`, `ColumnNotFoundError`."""
    condition = condition_on(snapshot, where)
    paths = column_paths(snapshot, columns) or tuple(
        path for path in condition.columns if path[0] not in snapshot.partition_columns
    )
    order = np.argsort(~condition.may_match, kind="stable")[: limit or None]
    rows = snapshot.skipping_columns.num_records()
    hidden = snapshot.skipping_columns.hidden_rows()
    chosen = snapshot.files.table.take(pa.array(order)).append_column("rows", rows.take(pa.array(order)))
    files = _facts(snapshot, chosen, paths, hidden[order], condition.may_match[order])
    return FileList(
        snapshot=snapshot,
        condition=condition,
        columns=paths,
        files=tuple(files),
        rows=_live_rows(rows, hidden, condition),
    )


def files_document(found: FileList) -> dict[str, Any]:
    """For programs."""
    return {
        "table": found.snapshot.table_root,
        "version": found.snapshot.version,
        "where": found.condition.text or None,
        "notUnderstood": list(found.condition.not_understood),
        "total": {"files": found.total, "bytes": found.snapshot.files.size_bytes},
        "read": {"files": found.read, "bytes": found.read_bytes, "rows": found.rows},
        "skipped": {"files": found.total - found.read},
        "files": [
            {
                "path": file.path,
                "size": file.size_bytes,
                "rows": file.rows,
                "hiddenRows": file.hidden_rows,
                "partition": dict(file.partition),
                "bounds": {name: {"min": low, "max": high} for name, (low, high) in file.bounds.items()},
                "read": file.is_read,
            }
            for file in found.files
        ],
    }


def print_files(found: FileList) -> None:
    """For people."""
    out = console()
    with_condition = bool(found.condition.text)
    partitioned = bool(found.snapshot.partition_columns)
    with_hidden = any(file.hidden_rows for file in found.files)
    bounds = [column_text(path) for path in found.columns]
    shown = ["file", "size", "rows", *["hidden"] * with_hidden, *["partition"] * partitioned, *bounds]
    table = table_of(*["read"] * with_condition, *shown, right=("size", "rows", "hidden"))
    for file in found.files:
        cells = [plain(file.path), size(file.size_bytes), "?" if file.rows is None else f"{file.rows:,}"]
        cells += [f"{file.hidden_rows:,}" if file.hidden_rows else ""] * with_hidden
        cells += [_partition_in_words(file.partition)] * partitioned
        cells += [_range_in_words(*file.bounds[name]) for name in bounds]
        style = "dim" if not file.is_read else None
        table.add_row(*["yes" if file.is_read else "skip"] * with_condition, *cells, style=style)
    if found.files:
        out.print(table)
    if len(found.files) < found.total:
        out.print(f"… and {count(found.total - len(found.files), 'more file', 'more files')}; --limit 0 lists all.")
    _print_totals(found)


def _print_totals(found: FileList) -> None:
    out = console()
    rows = "" if found.rows is None else f", {count(found.rows, 'row')}"
    if not found.condition.text:
        out.print(f"{count(found.total, 'file')}, {size(found.read_bytes)}{rows} in version {found.snapshot.version}.")
        return
    skipped = found.total - found.read
    out.print(
        f"{plain(found.condition.text)}: reads {found.read:,} of {count(found.total, 'file')} "
        f"({size(found.read_bytes)}{rows}), skips {skipped:,}.",
        style="bold",
    )
    for part in found.condition.not_understood:
        out.print(f"Not used for skipping, since only Spark can tell what it means: {plain(part, 200)}", style="yellow")


def _facts(
    snapshot: Snapshot,
    files: pa.Table,
    paths: tuple[ColumnPath, ...],
    hidden: np.ndarray,
    is_read: np.ndarray,
) -> list[FileFacts]:
    names = physical_paths(snapshot.schema, snapshot.column_mapping_mode)
    partition_names = dict(zip(snapshot.physical_partition_columns, snapshot.partition_columns, strict=True))
    wanted = files.select(["path", "size", "rows", "stats", "partition_values"]).to_pylist()
    found = []
    for row, hides, reads in zip(wanted, hidden.tolist(), is_read.tolist(), strict=True):
        statistics = _decoded(row["stats"]) if paths else {}
        values = dict(row["partition_values"] or [])
        found.append(
            FileFacts(
                path=row["path"],
                size_bytes=row["size"] or 0,
                rows=row["rows"],
                hidden_rows=hides,
                partition={logical: values.get(physical) for physical, logical in partition_names.items()},
                bounds={column_text(path): _bounds(statistics, names[path]) for path in paths},
                is_read=reads,
            )
        )
    return found


def _live_rows(rows: pa.ChunkedArray, hidden: np.ndarray, condition: Condition) -> int | None:
    mask = condition.may_match
    of_read = rows.filter(pa.array(mask))
    return None if of_read.null_count else int(pc.sum(of_read).as_py() or 0) - int(hidden[mask].sum())


def _decoded(stats: str | None) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(stats or "{}")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _bounds(statistics: dict[str, Any], path: ColumnPath) -> tuple[Any, Any]:
    return _at(statistics.get("minValues"), path), _at(statistics.get("maxValues"), path)


def _at(value: Any, path: ColumnPath) -> Any:
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return None if isinstance(value, dict | list) else value


def _range_in_words(low: Any, high: Any) -> str:
    if low is None and high is None:
        return ""
    if low == high:
        return plain(low, VALUE_CHARACTERS)
    ends = ["?" if end is None else plain(end, VALUE_CHARACTERS) for end in (low, high)]
    return " … ".join(ends)


def _partition_in_words(partition: Mapping[str, str | None]) -> str:
    return ", ".join(
        f"{plain(name)}={'null' if value is None else plain(value, 60)}" for name, value in partition.items()
    )
