"""Compactions of other engines are read as the commits that they stand for."""

from __future__ import annotations

from log_in_memory import LogInMemory, write_compaction

from anabranch.protocol.actions import DomainMetadata


def test_removed_domains_stay_so_that_they_cancel_what_came_before() -> None:
    log = LogInMemory.created()
    log.commit(DomainMetadata(domain="d", configuration="1", removed=False))
    log.commit(DomainMetadata(domain="d", configuration="2", removed=False))
    log.commit(DomainMetadata(domain="d", configuration="2", removed=True))
    write_compaction(log.store, first=2, last=3)
    assert dict(log.snapshots().latest().domain_metadata) == {}
