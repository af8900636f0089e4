"""Log compactions, by other engines and by us, are read as the commits that they replace."""

from __future__ import annotations

import pytest

from anabranch.errors.environment import FileMissingError
from anabranch.log.commit_files import reconciliation_key
from anabranch.log.log_compaction import write_log_compaction
from anabranch.protocol.actions import DomainMetadata, SetTransaction
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.log_paths import commit_path, compacted_path
from anabranch.storage.memory_store import MemoryStore
from log.log_in_memory import LogInMemory, add, remove, write_compaction


def test_removed_domains_stay_so_that_they_cancel_what_came_before() -> None:
    log = LogInMemory.created()
    log.commit(DomainMetadata(domain="d", configuration="1", removed=False))
    log.commit(DomainMetadata(domain="d", configuration="2", removed=False))
    log.commit(DomainMetadata(domain="d", configuration="2", removed=True))
    write_compaction(log.store, first=2, last=3)
    assert dict(log.snapshots().latest().domain_metadata) == {}


def test_ours_says_what_is_left_of_the_commits() -> None:
    log = LogInMemory.created()
    log.commit(add("a"), SetTransaction(app_id="app", version=1))
    log.commit(remove("a"), add("b"), DomainMetadata(domain="d", configuration="1", removed=False))
    log.commit(add("b", vector="v"), remove("b"), SetTransaction(app_id="app", version=2))
    log.commit(DomainMetadata(domain="d", configuration="1", removed=True), add("c"))
    before = log.snapshots().latest()
    made = write_log_compaction(log.store, first=1, last=4)
    expected = LogInMemory(store=MemoryStore(clock=log.clock), clock=log.clock)
    for version in range(5):
        expected.store.put(commit_path(version), log.store.read(commit_path(version)))
    write_compaction(expected.store, first=1, last=4)
    assert (made.path, made.existed) == (compacted_path(1, 4), False)
    assert log.store.read(made.path) == expected.store.read(made.path)
    # Readers use it instead of the commits.
    log.store.put(commit_path(2), b"not a commit")
    after = log.snapshots().latest()
    assert [add.key for add in after.files.to_actions(None)] == [add.key for add in before.files.to_actions(None)]
    assert (after.version, dict(after.domain_metadata)) == (4, {})
    assert lint_of_actions(log, made.path) == made.num_actions


def test_it_is_written_once_and_of_whole_ranges() -> None:
    log = LogInMemory.created()
    for number in range(3):
        log.commit(add(f"file {number}"))
    assert not write_log_compaction(log.store, first=0, last=2).existed
    data = log.store.read(compacted_path(0, 2))
    assert write_log_compaction(log.store, first=0, last=2).existed
    assert log.store.read(compacted_path(0, 2)) == data
    with pytest.raises(FileMissingError, match=r"4\.json"):
        write_log_compaction(log.store, first=2, last=5)
    log.delete(commit_path(1))
    with pytest.raises(FileMissingError, match=r"1\.json"):
        write_log_compaction(log.store, first=1, last=3)


def lint_of_actions(log: LogInMemory, path: str) -> int:
    """The number of actions in the file, none with the key of another one."""
    subjects = [reconciliation_key(action) for action in parse_actions(log.store.read(path))]
    assert len(set(subjects)) == len(subjects)
    return len(subjects)
