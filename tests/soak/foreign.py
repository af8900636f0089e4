"""What readers of other makers see of the tables in the end."""

from __future__ import annotations

from collections import Counter

from interop.readers import read_by_delta_rs, read_by_duckdb
from soak.judge import TableJudge
from soak.versions import row_of

UNSUPPORTED = "unsupported table features"
"""What delta-rs says of tables that are given features by chance, type widening for one."""
READERS = {"delta-rs": read_by_delta_rs, "DuckDB": read_by_duckdb}


def problems_of_foreign_readers(judge: TableJudge) -> list[str]:
    """They see the rows of the newest version."""
    assert judge.last is not None
    problems = []
    for name, read in READERS.items():
        try:
            found = Counter(map(row_of, read(str(judge.path)).to_pylist()))
        except Exception as error:
            if judge.kind.startswith("described") and UNSUPPORTED in str(error).lower():
                judge.counts[f"no feature of {name}"] += 1
                continue
            problems.append(f"{judge.kind}: {name} cannot read it: {error}")
            continue
        if found != judge.last.rows:
            problems.append(f"{judge.kind}: {name} sees {found.total()} rows, there are {judge.last.rows.total()}")
        else:
            judge.counts[f"read by {name}"] += 1
    return problems
