"""Every table of the corpus opens, or is refused for the right reason, and has the files that delta-rs finds."""

from __future__ import annotations

import tarfile
from pathlib import Path
from urllib.parse import unquote

import deltalake
import pytest
from deltalake.exceptions import DeltaError as DeltaRsError
from deltalake.exceptions import TableNotFoundError as DeltaRsTableNotFoundError

from anabranch.clock import SystemClock
from anabranch.errors.base import DeltaError
from anabranch.errors.log import IncompleteStateError, LogGapError, TableNotFoundError
from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.local.local_store import LocalStore

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"

REFUSED: dict[str, type[DeltaError]] = {
    "golden/deltalog-invalid-protocol-version": UnsupportedFeatureError,
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": IncompleteStateError,
    "golden/deltalog-state-reconstruction-from-checkpoint-missing-protocol": IncompleteStateError,
    "golden/deltalog-state-reconstruction-without-metadata": IncompleteStateError,
    "golden/deltalog-state-reconstruction-without-protocol": IncompleteStateError,
    "golden/no-delta-log-folder": TableNotFoundError,
    "golden/versions-not-contiguous": LogGapError,
    "golden/hive": TableNotFoundError,
    # Its log has adds and removes only; that of the table proper is a directory deeper.
    "golden/data-reader-absolute-paths-escaped-chars": IncompleteStateError,
}
NOT_READ_BY_DELTA_RS = {"golden/deltalog-commit-info", "golden/update-deleted-directory"}
"""Old checkpoints and metadata that it finds invalid."""


def table_names() -> list[str]:
    names = set()
    for archive_name in ("golden", "dat"):
        path = CORPUS / f"{archive_name}.tar.gz"
        if path.is_file():
            with tarfile.open(path) as archive:
                names |= {"/".join(name.split("/")[:2]) for name in archive.getnames() if "/delta" in name}
    return sorted(names) or ["the corpus is not here"]


def snapshots_of(corpus: Path, name: str) -> SnapshotCache:
    return SnapshotCache(LocalStore(str(corpus / name / "delta")), SystemClock())


def paths_of(snapshot: Snapshot) -> list[str]:
    """Decoded, so that they compare with paths however they were encoded."""
    return sorted(unquote(path) for path in snapshot.files.columns("path")["path"].to_pylist())


@pytest.mark.parametrize("name", table_names())
def test_live_files_are_those_of_delta_rs(corpus: Path, name: str) -> None:
    if name in REFUSED:
        with pytest.raises(REFUSED[name]):
            snapshots_of(corpus, name).latest()
        return
    ours = snapshots_of(corpus, name).latest()
    root = str(corpus / name / "delta")
    try:
        theirs = deltalake.DeltaTable(root)
    except (DeltaRsError, DeltaRsTableNotFoundError):
        assert name in NOT_READ_BY_DELTA_RS
        assert ours.files.count > 0
        return
    assert ours.version == theirs.version()
    assert ours.metadata.id == str(theirs.metadata().id)
    uris = sorted(unquote(uri).removeprefix(root).removeprefix("/") for uri in theirs.file_uris())
    # Canonical and absolute spellings of one path are resolved elsewhere.
    assert [path.rpartition("/")[2] for path in paths_of(ours)] == [uri.rpartition("/")[2] for uri in uris]


@pytest.mark.parametrize("name", table_names())
def test_every_version_has_the_files_of_delta_rs(corpus: Path, name: str) -> None:
    """Time travel too, and reached forwards from the version before as well as from nothing."""
    if name in REFUSED or name in NOT_READ_BY_DELTA_RS:
        pytest.skip("delta-rs or we refuse it")
    forwards = snapshots_of(corpus, name)
    latest, earliest = forwards.latest().version, forwards.earliest_version()
    root = str(corpus / name / "delta")
    for version in range(earliest, latest + 1):
        ours = forwards.at_version(version)
        alone = snapshots_of(corpus, name).at_version(version)
        assert paths_of(ours) == paths_of(alone)
        try:
            theirs = deltalake.DeltaTable(root, version=version)
        except (DeltaRsError, DeltaRsTableNotFoundError):
            continue
        assert ours.files.count == len(theirs.file_uris())


def test_a_log_that_begins_with_a_checkpoint_opens(corpus: Path) -> None:
    snapshots = snapshots_of(corpus, "golden/only-checkpoint-files")
    assert snapshots.latest().version == 2
    assert snapshots.latest().segment.checkpoint is not None


def test_vectors_come_out_of_checkpoints(corpus: Path) -> None:
    ours = snapshots_of(corpus, "golden/dv-partitioned-with-checkpoint").latest()
    vectors = [add.deletion_vector for add in ours.files.to_actions() if add.deletion_vector]
    assert len(vectors) == ours.files.summary.deletion_vectors > 0
    assert sum(vector.cardinality for vector in vectors) == ours.files.summary.deleted_records
