"""How a commit came to stand behind others that landed first, in words. See "Commit Provenance Information"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anabranch.cli.words import count, listed
from anabranch.protocol.actions import CommitInfo
from anabranch.transaction.reconciliation import (
    LANDED_AFTER_TAG,
    LOST_TO_TAG,
    parsed_versions,
    reconciliation_of,
)

_NAMED_MAX = 4


def landed_after(info: CommitInfo) -> tuple[int, ...]:
    """The versions that others landed between the one read and this one, as far as the commit says so."""
    return parsed_versions((info.tags or {}).get(LANDED_AFTER_TAG))


def landed_after_in_words(info: CommitInfo) -> str:
    """`landed after versions 14 and 15, committed by others in the meantime`; empty where nobody was faster."""
    versions = landed_after(info)
    return f"landed after {_versions(versions)}, committed by others in the meantime" if versions else ""


def reconciled_in_words(info: CommitInfo) -> Iterator[str]:
    """What it took to fit the commit behind them, one thing a line."""
    how = reconciliation_of(info.tags)
    for version, rows in sorted(how.moved_rows.items()):
        yield f"moved {count(rows, 'mark')} through the compaction of version {version}"
    for version, rows in sorted(how.found_rows.items()):
        yield f"looked again for {count(rows, 'row')} that the compaction of version {version} had moved without word"
    if how.united_vectors:
        yield f"added its marks to those of others in {count(how.united_vectors, 'file')}"
    if how.stands_before:
        verb = "an append" if len(how.stands_before) == 1 else "appends"
        yield f"counts as before {_versions(how.stands_before)}, {verb} that it did not read"
    if how.carried_rows:
        yield f"took {count(how.carried_rows, 'mark')} of others along into the files that it wrote"
    if how.left_out_bins:
        yield f"left out {count(how.left_out_bins, 'group of files', 'groups of files')} that others had changed"
    if lost_to := parsed_versions((info.tags or {}).get(LOST_TO_TAG)):
        yield f"was executed again after conflicts with {_versions(lost_to)}"


def reconciliation_document(info: CommitInfo) -> dict[str, Any]:
    """For programs."""
    how = reconciliation_of(info.tags)
    return {
        "movedRows": _by_version(how.moved_rows),
        "foundRows": _by_version(how.found_rows),
        "unitedVectors": how.united_vectors,
        "standsBefore": list(how.stands_before),
        "carriedRows": how.carried_rows,
        "leftOutBins": how.left_out_bins,
        "lostTo": list(parsed_versions((info.tags or {}).get(LOST_TO_TAG))),
    }


def _by_version(rows: Mapping[int, int]) -> dict[str, int]:
    return {str(version): number for version, number in sorted(rows.items())}


def _versions(versions: Sequence[int]) -> str:
    if len(versions) == 1:
        return f"version {versions[0]}"
    if len(versions) <= _NAMED_MAX:
        return f"versions {listed([str(version) for version in versions])}"
    whole = max(versions) - min(versions) + 1 == len(versions)
    return f"versions {versions[0]} to {versions[-1]}" + ("" if whole else ", not all of them")
