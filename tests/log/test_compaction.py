"""Compactions written."""

from __future__ import annotations

import pytest
from log_in_memory import LogInMemory, add, remove

from anabranch.errors.log import LogGapError
from anabranch.log.commit_files import write_compaction
from anabranch.protocol.actions import AddFile, CommitInfo, DomainMetadata, RemoveFile, SetTransaction
from anabranch.protocol.actions_json import parse_actions
from anabranch.protocol.log_paths import commit_path, compacted_path
from anabranch.storage.log_store import PutOutcome


def test_the_example_of_the_protocol() -> None:
    """See "Log Compaction Files"."""
    log = LogInMemory.created()
    for _ in range(3):
        log.commit()
    log.commit(add("f2"), remove("f1"))
    log.commit(add("f3"), add("f4"), SetTransaction(app_id="s", version=4389))
    log.commit(remove("f3"), SetTransaction(app_id="s", version=4390))
    assert write_compaction(log.store, first=4, last=6) is PutOutcome.CREATED
    actions = list(parse_actions(log.store.read(compacted_path(4, 6))))
    assert {action.path for action in actions if isinstance(action, AddFile)} == {"f2", "f4"}
    assert {action.path for action in actions if isinstance(action, RemoveFile)} == {"f1", "f3"}
    assert [action.version for action in actions if isinstance(action, SetTransaction)] == [4390]
    assert not any(isinstance(action, CommitInfo) for action in actions)
    assert write_compaction(log.store, first=4, last=6) is PutOutcome.EXISTS


def test_removed_domains_stay_so_that_they_cancel_what_came_before() -> None:
    log = LogInMemory.created()
    log.commit(DomainMetadata(domain="d", configuration="1", removed=False))
    log.commit(DomainMetadata(domain="d", configuration="2", removed=False))
    log.commit(DomainMetadata(domain="d", configuration="2", removed=True))
    write_compaction(log.store, first=2, last=3)
    assert dict(log.snapshots().latest().domain_metadata) == {}


def test_commits_that_are_not_there_cannot_be_compacted() -> None:
    log = LogInMemory.created()
    log.commit()
    log.commit()
    with pytest.raises(LogGapError, match="version 3 is missing"):
        write_compaction(log.store, first=1, last=4)
    log.delete(commit_path(1))
    with pytest.raises(LogGapError, match="version 1 is missing"):
        write_compaction(log.store, first=0, last=2)
    with pytest.raises(ValueError, match="at least two versions"):
        write_compaction(log.store, first=2, last=2)
