"""OPTIMIZE of every sort, as actions and bins."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from anabranch.protocol.actions import Action, AddFile, RemoveFile
from anabranch.transactions.proposed_commit import Bin
from anabranch.transactions.rows.deletion_vector_actions import removal
from anabranch.transactions.rows.row_map import Run, moved_to_tags, runs_of
from concurrency.conditions import Row
from concurrency.played_ids import KeptId, as_copied, id_of
from concurrency.played_table import PlayedTable, Version
from concurrency.statements import Optimize

SourceRow = tuple[int, int]
"""A source, by its number, and the number of a row among those that it shows."""


def rearranged(played: PlayedTable, read: Version, statement: Optimize) -> tuple[tuple[Action, ...], tuple[Bin, ...]]:
    """What it would commit; nothing where there is nothing to do."""
    chosen = _chosen(read, statement)
    groups = [[file] for file in chosen] if statement.purges else _by_partition(read, chosen)
    actions: list[Action] = []
    bins: list[Bin] = []
    for group in filter(None, groups):
        removes, outputs = _bin(played, read, statement, group)
        actions += [*removes, *outputs]
        bins.append(
            Bin(
                sources=frozenset(read.adds[file].key for file in group),
                outputs=frozenset(add.path for add in outputs),
                metrics={"numRemovedFiles": len(removes), "numAddedFiles": len(outputs)},
            )
        )
    return tuple(actions), tuple(bins)


def _by_partition(read: Version, files: Sequence[int]) -> list[list[int]]:
    groups: dict[str | None, list[int]] = {}
    for file in files:
        groups.setdefault(read.adds[file].partition_values.get("k"), []).append(file)
    return list(groups.values())


def _chosen(read: Version, statement: Optimize) -> list[int]:
    order = sorted(range(len(read.adds)), key=lambda file: read.adds[file].path)
    if statement.files:
        order = [order[file] for file in statement.files if file < len(order)]
    return [file for file in order if read.hidden[file]] if statement.purges else order


def _bin(
    played: PlayedTable, read: Version, statement: Optimize, group: Sequence[int]
) -> tuple[list[RemoveFile], list[AddFile]]:
    shown = [
        [row for position, row in enumerate(played.data[read.adds[file].path]) if position not in read.hidden[file]]
        for file in group
    ]
    locations = [(source, row) for source, rows in enumerate(shown) for row in range(len(rows))]
    if statement.ordered:
        locations.sort(key=lambda source_row: _v_and_k(shown[source_row[0]][source_row[1]]))
    size = statement.rows_per_file
    parts = [locations[start : start + size] for start in range(0, len(locations), size)]
    ids = _ids(played, read, group) if statement.keeps_ids else [[None] * len(rows) for rows in shown]
    outputs = [
        played.write(
            [shown[source][row] for source, row in part],
            data_change=False,
            counted=True,
            kept=[ids[source][row] for source, row in part],
        )
        for part in parts
    ]
    removes = [removal(read.adds[file], removed_at_ms=played.clock.now_ms(), data_change=False) for file in group]
    if statement.leaves_word:
        if statement.ordered:
            runs = _runs_one_by_one([len(rows) for rows in shown], parts, outputs)
        else:
            runs = runs_of(
                [len(rows) for rows in shown], [(add.path, len(part)) for add, part in zip(outputs, parts, strict=True)]
            )
        removes = [
            msgspec.structs.replace(remove, tags=moved_to_tags(runs_of_source))
            for remove, runs_of_source in zip(removes, runs, strict=True)
        ]
    return removes, outputs


def _ids(played: PlayedTable, read: Version, group: Sequence[int]) -> Sequence[Sequence[KeptId | None]]:
    return [
        [
            as_copied(id_of(played.kept, read.adds[file], position))
            for position in range(len(played.data[read.adds[file].path]))
            if position not in read.hidden[file]
        ]
        for file in group
    ]


def _v_and_k(row: Row) -> tuple[int, int]:
    return (-1 if row.v is None else row.v), row.k


def _runs_one_by_one(
    shown: Sequence[int], parts: Sequence[Sequence[SourceRow]], outputs: Sequence[AddFile]
) -> list[list[Run]]:
    """The runs of each source where rows are mixed: every row is one by itself."""
    where = {
        source_row: Run(path=add.path, start=start, count=1)
        for add, part in zip(outputs, parts, strict=True)
        for start, source_row in enumerate(part)
    }
    return [[where[source, row] for row in range(count)] for source, count in enumerate(shown)]
