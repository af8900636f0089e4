"""`anabranch optimize`, `vacuum` and `restore`: the statements of these names, and what they did."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from anabranch.cli.output import facts_table
from anabranch.commands.optimize.optimize_command import optimize_frame
from anabranch.commands.restore.restore_table import restore_frame
from anabranch.commands.table_access import TableRef, TimeTravel
from anabranch.commands.vacuum.vacuum_command import Vacuumed, VacuumRequest, vacuum
from anabranch.text_format import count, plain, size

if TYPE_CHECKING:
    from rich.console import Console

PATHS_SHOWN = 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """What OPTIMIZE or RESTORE did, in Delta's terms."""

    table: str
    version: int
    """The newest version after the statement."""
    metrics: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        return {"table": self.table, "version": self.version, "metrics": dict(self.metrics)}

    def print_to(self, out: Console) -> None:
        facts = facts_table()
        facts.add_row("version", str(self.version))
        for name, value in self.metrics.items():
            if isinstance(value, int) and value:
                is_size = name.endswith(("Size", "_size"))
                facts.add_row(plain(name), size(value) if is_size else f"{value:,}")
            elif name in {"filesAdded", "filesRemoved"} and value and value["totalSize"]:
                facts.add_row(f"size of {name}", size(value["totalSize"]))
        out.print(facts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """The files that VACUUM deleted, or would delete."""

    table: str
    dry_run: bool
    num_files: int
    size_bytes: int
    paths: tuple[str, ...]
    """Those of a dry run, relative to the table."""

    def document(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "dryRun": self.dry_run,
            "files": self.num_files,
            "sizeInBytes": self.size_bytes,
            **({"paths": list(self.paths)} if self.dry_run else {}),
        }

    def print_to(self, out: Console) -> None:
        for path in self.paths[:PATHS_SHOWN]:
            out.print(plain(path))
        if len(self.paths) > PATHS_SHOWN:
            out.print(f"… and {len(self.paths) - PATHS_SHOWN:,} more; --json lists all", style="dim")
        done = "would be deleted" if self.dry_run else "deleted"
        out.print(f"{count(self.num_files, 'file')} {done}, {size(self.size_bytes)}.")


def optimize_table(table: TableRef, *, where: str | None, zorder_by: list[str], full: bool) -> StatementResult:
    """Compact, and with columns or for a clustered table order rows. Raises as OPTIMIZE."""
    row: Any = optimize_frame(table, predicate=where, zorder_by=zorder_by, full=full).collect()[0]
    return StatementResult(
        table=table.path, version=table.latest().version, metrics=row["metrics"].asDict(recursive=True)
    )


def restore_table(table: TableRef, travel: TimeTravel) -> StatementResult:
    """Make an earlier version the newest. Raises as RESTORE."""
    row: Any = restore_frame(table, travel).collect()[0]
    return StatementResult(table=table.path, version=table.latest().version, metrics=row.asDict(recursive=True))


def vacuum_table(table: TableRef, request: VacuumRequest, *, confirmed: bool) -> VacuumReport:
    """Delete files that no version within the retention needs; the user confirms it, unless that has happened.

    Raises as VACUUM, and `typer.Abort` where the user declines.
    """
    if not request.dry_run and not confirmed:
        planned = vacuum(table, dataclasses.replace(request, dry_run=True)).plan
        number, amount = count(len(planned.files), "file"), size(planned.size_bytes)
        if len(planned.files):
            question = (
                f"Delete {number} ({amount}) of {plain(table.path)}? Versions that need them cannot be read again."
            )
            typer.confirm(question, abort=True, err=True)
    return _report(table, vacuum(table, request), dry_run=request.dry_run)


def _report(table: TableRef, done: Vacuumed, *, dry_run: bool) -> VacuumReport:
    return VacuumReport(
        table=table.path,
        dry_run=dry_run,
        num_files=len(done.plan.files) if done.cleared is None else done.cleared.num_files,
        size_bytes=done.plan.size_bytes,
        paths=tuple(done.plan.paths) if dry_run else (),
    )
