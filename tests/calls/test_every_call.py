"""A sample of the calls that `make test-faults` lets fail, and bugs that the judges must find."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import pytest

from anabranch.errors.environment import StorageError
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import PutOutcome
from anabranch.transactions.commit import after_commit
from anabranch.transactions.delta_log import DeltaLog
from calls.every_call import storage_of, walk_all
from calls.faults import Fault
from calls.local_disk import FAULTS, LocalDisk
from calls.operations import OPERATIONS, Operation
from calls.walking import Tally, walk
from interop.readers import read_by_delta_rs

pytestmark = pytest.mark.long

SHARES = {"disk": 0.008, "s3": 0.01}


@pytest.fixture(autouse=True)
def _no_cloud_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize("kind", ["disk", "s3"])
def test_calls_fail_and_no_judge_complains(kind: str, record_property: Callable[[str, object], None]) -> None:
    """Covers faults F14, F15, F16, F20, F22 and F24: of every operation some calls, each in one of the ways."""
    tally = walk_all(kind, share=SHARES[kind])
    record_property("told", str(tally))
    assert not tally.complaints, "\n".join(tally.complaints)
    assert len(tally.operations) == len(OPERATIONS)
    assert {"committed", "done", "refused", "killed"} <= tally.results.keys()


@pytest.mark.parametrize("kind", ["disk", "s3"])
def test_a_commit_that_is_acknowledged_and_not_stored_is_told(kind: str) -> None:
    """The put of the commit itself, and each other call of an append that a storage may conceal.

    Behind another writer the log has a commit of that version, which is not ours.
    """
    for name in ("append", "append behind another"):
        tally = Tally()
        with storage_of(kind) as storage:
            storage.faults = tuple(fault for fault in storage.faults if fault.lies)
            walk(storage, named(name), tally)
        assert not tally.complaints, "\n".join(tally.complaints)
        assert tally.results["unknown"] >= 1, f"the storage has lied about the commit: {name}"


def test_delta_rs_reads_what_failing_calls_leave(tmp_path: Path) -> None:
    """Behind every tenth call of a DELETE that fails."""
    disk, tally, read = LocalDisk(tmp_path), Tally(), 0
    expected = {(3, 3), (4, 4), (5, 5), (7, 7)}
    disk.faults = tuple(fault for fault in FAULTS if fault.name == "EIO")
    turns = iter(range(10_000))
    original = disk.contents

    def contents() -> dict[str, bytes]:
        nonlocal read
        rows = {(row["k"], row["v"]) for row in read_by_delta_rs(disk.root).to_pylist()}
        assert rows in (expected, expected | {(1, 1), (2, 2)})
        read += 1
        return original()

    with mock.patch.object(disk, "contents", contents):
        walk(disk, named("DELETE"), tally, chosen=lambda: next(turns) % 10 == 0)
    assert not tally.complaints
    assert read > 20


def named(name: str) -> Operation:
    return next(operation for operation in OPERATIONS if operation.name == name)


# Bugs that are put in, each of which the judges must find.


def _raises_what_follows(self: after_commit.AfterCommit, committed: object) -> None:
    for step in self.steps:
        step.run(committed)  # type: ignore[arg-type]


def _takes_unknown_for_lost(self: LocalStore, path: str, data: bytes) -> PutOutcome:
    outcome = _put_if_absent(self, path, data)
    if outcome is PutOutcome.UNKNOWN:
        raise StorageError(root=self.root, path=path, doing="write", cause="no reliable answer")
    return outcome


_put_if_absent = LocalStore.put_if_absent
BUGS: dict[str, tuple[object, str, object, str]] = {
    "a fault after the put is raised": (after_commit.AfterCommit, "run", _raises_what_follows, "and is in the log"),
    "an unknown outcome is reported as a failure": (
        LocalStore,
        "put_if_absent",
        _takes_unknown_for_lost,
        "and is in the log",
    ),
    "a commit is not looked for in the storage": (
        DeltaLog,
        "_check_is_stored",
        lambda *_: None,
        "reads",
    ),
}


@pytest.fixture(params=BUGS)
def complaint(request: pytest.FixtureRequest) -> Iterator[str]:
    target, name, planted, complaint = BUGS[request.param]
    with mock.patch.object(target, name, planted):
        yield complaint


def test_the_judges_find_bugs_that_are_put_in(complaint: str, tmp_path: Path) -> None:
    tally = Tally()
    disk = LocalDisk(tmp_path)
    disk.faults = tuple(f for f in FAULTS if f.name in {"EIO", "EIO after the effect", "acknowledged and not done"})
    disk.faults = tuple(_of_names(fault) for fault in disk.faults)
    walk(disk, named("append"), tally)
    assert any(complaint in reported for reported in tally.complaints), tally.complaints


def _of_names(fault: Fault) -> Fault:
    """The fault at the calls that give commits their names and make names durable alone, which are few."""
    names = frozenset({"link", "fsync"})
    return dataclasses.replace(fault, calls=fault.calls & names)
