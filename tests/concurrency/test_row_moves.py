"""Where rows went, against a model that keeps every row as an object."""

from __future__ import annotations

import json
import random

import pytest
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.transactions.rows.row_map import Moves, Run, checked_moves, moved_to_tags, runs_of

OutputRow = tuple[str, int]


def source(path: str, runs: list[Run]) -> RemoveFile:
    return RemoveFile(path=path, data_change=False, tags=moved_to_tags(runs))


def output(path: str, rows: int) -> AddFile:
    stats = json.dumps({"numRecords": rows})
    return AddFile(path=path, partition_values={}, size=1, modification_time=0, data_change=False, stats=stats)


@pytest.mark.parametrize("seed", range(200))
def test_every_row_is_followed(seed: int) -> None:
    """Sources that hide rows, written to one or many outputs, while rivals hide more."""
    rng = random.Random(seed)
    rows = {f"s{number}": rng.randint(1, 8) for number in range(rng.randint(1, 4))}
    hidden = {path: {row for row in range(count) if rng.random() < 0.3} for path, count in rows.items()}
    written = [(path, row) for path, count in rows.items() for row in range(count) if row not in hidden[path]]
    outputs = _split(rng, len(written))
    locations = dict(zip(written, [(path, row) for path, count in outputs for row in range(count)], strict=True))
    runs = runs_of([count - len(hidden[path]) for path, count in rows.items()], outputs)
    for rival in [row for row in written if rng.random() < 0.3]:
        hidden[rival[0]].add(rival[1])
    in_outputs = [
        BitMap64([locations[row][1] for row in written if _is_hidden(row, hidden, locations[row], path)])
        for path, _ in outputs
    ]
    removes = [
        (source(path, runs_of_source), count - len(hidden[path]))
        for (path, count), runs_of_source in zip(rows.items(), runs, strict=True)
    ]

    moves = checked_moves(removes, [output(*written) for written in outputs], in_outputs)

    assert isinstance(moves, Moves)
    for path, count in rows.items():
        chosen = [row for row in range(count) if row not in hidden[path] and rng.random() < 0.6]
        expected: dict[str, set[int]] = {}
        for row in chosen:
            target, position = locations[path, row]
            expected.setdefault(target, set()).add(position)
        moved = moves.moved(BitMap64(chosen), source=path, hidden=BitMap64(sorted(hidden[path])))
        assert {target: set(positions) for target, positions in moved.items()} == expected


def _split(rng: random.Random, rows: int) -> list[tuple[str, int]]:
    outputs: list[tuple[str, int]] = []
    while rows:
        count = rng.randint(1, rows)
        outputs.append((f"o{len(outputs)}", count))
        rows -= count
    return outputs


def _is_hidden(row: OutputRow, hidden: dict[str, set[int]], position: OutputRow, path: str) -> bool:
    return row[1] in hidden[row[0]] and position[0] == path


def test_billions_of_rows() -> None:
    """Covers race 13: the cost depends only on the rows that are looked up."""
    rows = 5_000_000_000
    moves = checked_moves(
        [(source("s", [Run(path="o", start=0, count=rows)]), rows)], [output("o", rows)], [BitMap64()]
    )
    assert moves is not None
    chosen = BitMap64([7, 2**32 + 1])
    assert moves.moved(chosen, source="s", hidden=BitMap64()) == {"o": chosen}


@pytest.mark.parametrize(
    ("runs", "shown"),
    [
        ([Run(path="o", start=0, count=3)], 4),
        ([Run(path="o", start=0, count=3)], None),
        ([Run(path="o", start=1, count=2)], 2),
        ([Run(path="o", start=0, count=2), Run(path="o", start=1, count=2)], 4),
        ([Run(path="o", start=0, count=4)], 4),
        ([Run(path="elsewhere", start=0, count=3)], 3),
        ([], 0),
    ],
)
def test_what_is_not_believed(runs: list[Run], shown: int | None) -> None:
    """Covers race 58: counts that differ, runs that overlap, leave rows out or lead out of the commit."""
    assert checked_moves([(source("s", runs), shown)], [output("o", 3)], [BitMap64()]) is None


def test_an_output_of_unknown_length() -> None:
    add = AddFile(path="o", partition_values={}, size=1, modification_time=0, data_change=False)
    assert checked_moves([(source("s", [Run(path="o", start=0, count=3)]), 3)], [add], [BitMap64()]) is None
