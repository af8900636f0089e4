"""The tables of the corpus, and what their authors say is in them."""

from __future__ import annotations

import dataclasses
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors.base import DeltaError
from anabranch.errors.log import IncompleteStateError, LogGapError
from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.errors.tables import NotADeltaTableError

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"

REFUSED: dict[str, tuple[type[DeltaError], str]] = {
    "golden/deltalog-invalid-protocol-version": (UnsupportedFeatureError, "reader version 99"),
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": (IncompleteStateError, "metaData"),
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-protocol": (IncompleteStateError, "protocol"),
    "golden/deltalog-state-reconstruction-without-metadata": (IncompleteStateError, "metaData"),
    "golden/deltalog-state-reconstruction-without-protocol": (IncompleteStateError, "protocol"),
    "golden/no-delta-log-folder": (NotADeltaTableError, "not a Delta table"),
    "golden/versions-not-contiguous": (LogGapError, "1"),
    "golden/data-reader-absolute-paths-escaped-chars": (IncompleteStateError, "metaData"),
}
"""The error, and a word that it must say."""

OUTSIDE = {f"golden/canonicalized-paths-{kind}" for kind in ("normal-a", "normal-b", "special-a", "special-b")}
"""Logs that name a file outside their table: nothing may be opened there."""

LOG_ONLY = {
    "golden/checkpoint",
    "golden/delete-re-add-same-file-different-transactions",
    "golden/deltalog-commit-info",
    "golden/log-replay-special-characters-b",
    "golden/update-deleted-directory",
}
"""Logs whose data files were never there."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A table at a version, and the file of its expected rows."""

    name: str
    version: int | None = None
    """None for the newest."""
    content: str
    """The rows as Parquet, below the unpacked corpus."""

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name}@v{self.version}"


def names() -> list[str]:
    """Every table. `golden/hive` is a folder of tables; one folder has no log at all."""
    logged = {path.removesuffix("/_delta_log") for path in _members() if path.endswith("/_delta_log")}
    return sorted({*(path.removesuffix("/delta") for path in logged), "golden/no-delta-log-folder"}) if logged else []


def folder_of(name: str) -> str:
    return name if name.startswith("golden/hive") else f"{name}/delta"


def expectations() -> list[Expectation]:
    """Every table and version for which the corpus says what is in it."""
    expected = []
    for path in sorted(_members()):
        parts = path.split("/")
        if parts[0] == "golden" and parts[2:] == ["expected"]:
            expected.append(Expectation(name=f"golden/{parts[1]}", content=path))
        elif parts[0] == "dat" and parts[2:3] == ["expected"] and parts[4:] == ["table_content.parquet"]:
            version = None if parts[3] == "latest" else int(parts[3].removeprefix("v"))
            expected.append(Expectation(name=f"dat/{parts[1]}", version=version, content=path))
    return expected


def unpack(into: Path) -> None:
    for archive_name in ("golden", "dat"):
        with tarfile.open(CORPUS / f"{archive_name}.tar.gz") as archive:
            archive.extractall(into, filter="data")


def expected_table(corpus: Path, expectation: Expectation) -> pa.Table:
    """Its rows, with the one value put right that the corpus is known to have wrong."""
    table = pq.read_table(corpus / expectation.content)
    if expectation.name == "golden/data-reader-partition-values":
        position = table.column_names.index("as_timestamp")
        right = pa.scalar(datetime(2021, 9, 8, 11, 11, 11, tzinfo=UTC), pa.timestamp("us", "UTC"))
        column = pa.array([right if value is not None else None for value in table["as_timestamp"].to_pylist()])
        table = table.set_column(position, "as_timestamp", column)
    return table


def _members() -> set[str]:
    members: set[str] = set()
    for archive_name in ("golden", "dat"):
        path = CORPUS / f"{archive_name}.tar.gz"
        if path.is_file():
            with tarfile.open(path) as archive:
                members |= {member.name.rstrip("/") for member in archive}
    return members
