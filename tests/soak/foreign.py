"""What readers of other makers see of the tables in the end."""

from __future__ import annotations

from collections import Counter

from interop.readers import read_by_delta_rs, read_by_duckdb
from soak.judge import TableJudge
from soak.versions import Values, Version, row_of

UNSUPPORTED = "unsupported table features"
"""What delta-rs says of tables that are given features by chance, type widening for one."""
READERS = {"delta-rs": read_by_delta_rs, "DuckDB": read_by_duckdb}


def problems_of_foreign_readers(judge: TableJudge) -> list[str]:
    """They see the rows of the newest version."""
    assert judge.last is not None
    problems = []
    for name, read in READERS.items():
        try:
            rows = Counter(map(row_of, read(str(judge.path)).to_pylist()))
        except Exception as error:
            if judge.kind.startswith("described") and UNSUPPORTED in str(error).lower():
                judge.counts[f"no feature of {name}"] += 1
                continue
            problems.append(f"{judge.kind}: {name} cannot read it: {error}")
            continue
        unseen = _columns_unseen(name, judge.last)
        if _without(rows, unseen) != _without(judge.last.rows, unseen):
            problems.append(f"{judge.kind}: {name} sees {rows.total()} rows, there are {judge.last.rows.total()}")
        else:
            judge.counts[f"read by {name}"] += 1
    return problems


def _columns_unseen(reader: str, version: Version) -> set[str]:
    """DuckDB's extension shows NULL in partition columns whose physical name is not their name."""
    if reader != "DuckDB":
        return set()
    return {column for column in version.metadata["partitionColumns"] if version.physical_names[column] != column}


def _without(rows: Counter[Values], columns: set[str]) -> Counter[Values]:
    remaining: Counter[Values] = Counter()
    for row, count in rows.items():
        remaining[tuple(cell for cell in row if cell[0] not in columns)] += count
    return remaining
