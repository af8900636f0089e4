"""What to do about a table, from the numbers of its report."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.schema.paths import quote
from anabranch.table_report.report_values import (
    Advice,
    ColumnRole,
    FileFacts,
    Layout,
    Level,
    LogHealth,
    Maintenance,
    TableFacts,
    Totals,
)
from anabranch.text_format import count, plain, size

FILES_SAVED_MIN = 10
"""With fewer files saved, OPTIMIZE is not worth a word."""
PURGED_SHARE_MIN = 0.05
PURGED_BYTES_MIN = 1_000_000
"""With fewer of the rows deleted, or fewer bytes freed, rewriting files is not worth a word."""
PARTITIONS_MIN = 100
PARTITION_BYTES_MIN = 32_000_000
"""Smaller partitions, on average, cost more in files than they save in reading."""
LAYOUT_FILES_MIN = 10
LAYOUT_SHARE_MAX = 0.5
UNCOUNTED_SHARE_MIN = 0.1


def advice_for(
    table: TableFacts, totals: Totals, files: FileFacts, maintenance: Maintenance, layout: Layout, log: LogHealth
) -> tuple[Advice, ...]:
    """What is worth doing, the most urgent first; nothing for a table that is well."""
    name = table.name if table.name and table.name.isidentifier() else f"delta.{quote(table.location)}"
    advice = [
        *_about_log(log),
        *_about_maintenance(plain(name), totals, maintenance),
        *_about_partitions(files, totals),
        *_about_statistics(totals),
        *_about_layout(layout, totals),
    ]
    return tuple(sorted(advice, key=lambda item: item.level is not Level.WARNING))


def _about_log(log: LogHealth) -> Iterator[Advice]:
    for check in log.checks:
        if check.level is not Level.OK:
            yield Advice(level=check.level, text=f"{check.name}: {check.text}")


def _about_maintenance(name: str, totals: Totals, maintenance: Maintenance) -> Iterator[Advice]:
    optimize, purge, vacuum = maintenance.optimize, maintenance.purge, maintenance.vacuum
    if optimize.files_rewritten - optimize.files_written >= FILES_SAVED_MIN:
        kind = "clusters" if optimize.clusters else "compacts"
        text = (
            f"OPTIMIZE {kind} {count(optimize.files_rewritten, 'file')} ({size(optimize.bytes_rewritten)}) "
            f"into about {optimize.files_written:,}."
        )
        yield Advice(level=Level.NOTICE, text=text, command=f"OPTIMIZE {name}")
    in_files = (totals.rows or 0) + totals.hidden_rows
    hidden_share = totals.hidden_rows / in_files if in_files else 0
    if hidden_share > PURGED_SHARE_MIN and purge.bytes_freed >= PURGED_BYTES_MIN:
        text = (
            f"{count(totals.hidden_rows, 'deleted row')} are still in {count(purge.files_rewritten, 'file')}; "
            f"rewriting {'it' if purge.files_rewritten == 1 else 'them'} frees about {size(purge.bytes_freed)}."
        )
        yield Advice(level=Level.NOTICE, text=text, command=f"REORG TABLE {name} APPLY (PURGE)")
    if vacuum.files:
        files = f"{count(vacuum.files, 'file')} ({size(vacuum.bytes)})"
        text = f"VACUUM can delete {files} that no version within the retention needs."
        yield Advice(level=Level.NOTICE, text=text, command=f"VACUUM {name}")


def _about_partitions(files: FileFacts, totals: Totals) -> Iterator[Advice]:
    partitions = files.partitions
    if partitions is None or partitions.count < PARTITIONS_MIN:
        return
    average = totals.bytes // partitions.count
    if average < PARTITION_BYTES_MIN:
        text = (
            f"The {partitions.count:,} partitions have {size(average)} on average. "
            "Fewer partition columns, or clustering instead, give larger files."
        )
        yield Advice(level=Level.NOTICE, text=text)


def _about_statistics(totals: Totals) -> Iterator[Advice]:
    if totals.files and totals.files_without_row_count / totals.files >= UNCOUNTED_SHARE_MIN:
        files = f"{totals.files_without_row_count:,} of {count(totals.files, 'file')}"
        text = f"{files} have no statistics, so queries cannot skip them."
        yield Advice(level=Level.NOTICE, text=text)


def _about_layout(layout: Layout, totals: Totals) -> Iterator[Advice]:
    for column in layout.columns:
        if column.role is not ColumnRole.CLUSTERING or totals.files < LAYOUT_FILES_MIN:
            continue
        if column.fraction is not None and column.fraction > LAYOUT_SHARE_MAX:
            text = (
                f"The table is clustered by {column.name}, yet a lookup of one value reads {column.fraction:.0%} "
                "of the files: most of them are not clustered yet."
            )
            yield Advice(level=Level.NOTICE, text=text)
