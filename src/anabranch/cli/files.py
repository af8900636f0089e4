"""`anabranch files`: the live files of a table, and which of them a condition would read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cli.output import table_of
from anabranch.cli.rows.condition_filter import Condition, column_paths, condition_on
from anabranch.predicates.expressions import ColumnPath, column_text
from anabranch.schema.column_mapping import physical_paths
from anabranch.snapshot.snapshot import Snapshot
from anabranch.text_format import count, plain, size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FILES_SHOWN = 100
VALUE_CHARACTERS = 40


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One live file."""

    path: str
    size_bytes: int
    rows: int | None
    """Includes hidden rows; None where the file has no statistics."""
    hidden_rows: int
    partition: Mapping[str, str | None]
    """Partition values by logical name."""
    bounds: Mapping[str, tuple[Any, Any]]
    """Minimum and maximum of each selected column, as in the statistics; None where these lack it."""
    is_read: bool
    """Whether the file can hold a row that satisfies the condition."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileList:
    """The live files of one version, and which of them a condition reads."""

    snapshot: Snapshot
    condition: Condition
    columns: tuple[ColumnPath, ...]
    """The columns whose bounds are listed."""
    files: tuple[FileFacts, ...]
    """Files that are read come first; a limit cuts the list."""
    rows: int | None
    """Rows in the files that are read, without hidden ones; None where one of them has no statistics."""

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

    def document(self) -> dict[str, Any]:
        return {
            "table": self.snapshot.table_root,
            "version": self.snapshot.version,
            "where": self.condition.text or None,
            "notUnderstood": list(self.condition.not_understood),
            "total": {"files": self.total, "bytes": self.snapshot.files.size_bytes},
            "read": {"files": self.read, "bytes": self.read_bytes, "rows": self.rows},
            "skipped": {"files": self.total - self.read},
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
                for file in self.files
            ],
        }

    def print_to(self, out: Console) -> None:
        if self.files:
            out.print(_file_table(self))
        if len(self.files) < self.total:
            out.print(f"… and {count(self.total - len(self.files), 'more file', 'more files')}; --limit 0 lists all.")
        _print_totals(out, self)


def list_files(snapshot: Snapshot, *, where: str | None, columns: str | None, limit: int | None) -> FileList:
    """The live files; those that the condition reads come first.

    Raises `PredicateSyntaxError`, `ColumnNotFoundError`.
    """
    condition = condition_on(snapshot, where)
    paths = column_paths(snapshot, columns) or tuple(
        path for path in condition.columns if path[0] not in snapshot.partition_columns
    )
    order = np.argsort(~condition.may_match, kind="stable")[: limit or None]
    rows = snapshot.skipping_columns.num_records()
    hidden = snapshot.skipping_columns.hidden_rows()
    chosen = snapshot.files.rows(order).append_column("rows", rows.take(pa.array(order)))
    files = _facts(snapshot, chosen, paths, hidden[order], condition.may_match[order])
    return FileList(
        snapshot=snapshot,
        condition=condition,
        columns=paths,
        files=tuple(files),
        rows=_live_rows(rows, hidden, condition),
    )


def _file_table(listing: FileList) -> Table:
    with_condition = bool(listing.condition.text)
    partitioned = bool(listing.snapshot.partition_columns)
    with_hidden = any(file.hidden_rows for file in listing.files)
    bounds = [column_text(path) for path in listing.columns]
    headings = ["file", "size", "rows", *["hidden"] * with_hidden, *["partition"] * partitioned, *bounds]
    table = table_of(*["read"] * with_condition, *headings, right=("size", "rows", "hidden"))
    for file in listing.files:
        cells = [plain(file.path), size(file.size_bytes), "?" if file.rows is None else f"{file.rows:,}"]
        cells += [f"{file.hidden_rows:,}" if file.hidden_rows else ""] * with_hidden
        cells += [_partition_in_words(file.partition)] * partitioned
        cells += [_range_in_words(*file.bounds[name]) for name in bounds]
        style = "dim" if not file.is_read else None
        table.add_row(*["yes" if file.is_read else "skip"] * with_condition, *cells, style=style)
    return table


def _print_totals(out: Console, listing: FileList) -> None:
    files, read = count(listing.total, "file"), size(listing.read_bytes)
    rows = "" if listing.rows is None else f", {count(listing.rows, 'row')}"
    if not listing.condition.text:
        out.print(f"{files}, {read}{rows} in version {listing.snapshot.version}.")
        return
    out.print(
        f"{plain(listing.condition.text)}: reads {listing.read:,} of {files} ({read}{rows}), "
        f"skips {listing.total - listing.read:,}.",
        style="bold",
    )
    for part in listing.condition.not_understood:
        out.print(f"Not used for skipping, since only Spark can evaluate it: {plain(part, 200)}", style="yellow")


def _facts(
    snapshot: Snapshot,
    files: pa.Table,
    paths: tuple[ColumnPath, ...],
    hidden: np.ndarray,
    is_read: np.ndarray,
) -> list[FileFacts]:
    names = physical_paths(snapshot.schema, snapshot.column_mapping_mode)
    partition_names = dict(zip(snapshot.physical_partition_columns, snapshot.partition_columns, strict=True))
    rows = files.select(["path", "size", "rows", "stats", "partition_values"]).to_pylist()
    facts = []
    for row, hidden_rows, reads in zip(rows, hidden.tolist(), is_read.tolist(), strict=True):
        statistics = _decoded(row["stats"]) if paths else {}
        values = dict(row["partition_values"] or [])
        facts.append(
            FileFacts(
                path=row["path"],
                size_bytes=row["size"] or 0,
                rows=row["rows"],
                hidden_rows=hidden_rows,
                partition={logical: values.get(physical) for physical, logical in partition_names.items()},
                bounds={column_text(path): _bounds(statistics, names[path]) for path in paths},
                is_read=reads,
            )
        )
    return facts


def _live_rows(rows: pa.ChunkedArray, hidden: np.ndarray, condition: Condition) -> int | None:
    mask = condition.may_match
    read = rows.filter(pa.array(mask))
    return None if read.null_count else int(pc.sum(read).as_py() or 0) - int(hidden[mask].sum())


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
