"""The files of a batch, as a scan needs them or as the feed of changes does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.log.commits import Commit
from anabranch.log.file_columns import LIVE_FILE_SCHEMA, adds_of_table
from anabranch.log.listing import list_log
from anabranch.log.time_travel import monotonic_times
from anabranch.storage.log_store import LogStore
from anabranch.streaming.source_files import BatchPart
from anabranch.streaming.source_options import SourceOptions


def live_files(parts: Sequence[BatchPart], options: SourceOptions) -> pa.Table:
    """The files of a batch of added rows, in order. `LIVE_FILE_SCHEMA`."""
    tables = [_sliced(part) for part in parts]
    files = pa.concat_tables(tables) if tables else LIVE_FILE_SCHEMA.empty_table()
    return files if options.exclude is None else _kept(files, options)


def timed_commits(store: LogStore, parts: Sequence[BatchPart], options: SourceOptions) -> Iterator[tuple[Commit, int]]:
    """Commits with the actions that a batch of changes reads, and their times as the history tells them, in
    milliseconds since the epoch.

    Rows that were there at the start are those of added files of that version.
    """
    if not parts:
        return
    listing = list_log(store, first=0, upto=parts[-1].files.version)
    times = {time.version: time.timestamp_ms for time in monotonic_times(listing.commits)}
    for part in parts:
        files = part.files
        if files.adds is None:
            actions = files.changes[part.first : part.end]
        else:
            rows = adds_of_table(_sliced(part), data_change=True)
            actions = tuple(msgspec.structs.replace(add, stats=None) for add in rows)
        if options.exclude is not None:
            exclude = options.exclude
            actions = tuple(each for each in actions if exclude.search(getattr(each, "path", "")) is None)
        own = None if files.info is None else files.info.in_commit_timestamp
        at_ms = times.get(files.version, files.timestamp_ms) if own is None else own
        commit = Commit(
            version=files.version,
            actions=actions,
            info=files.info,
            timestamp_ms=files.timestamp_ms,
            modified_ms=files.timestamp_ms,
        )
        yield commit, at_ms


def _sliced(part: BatchPart) -> pa.Table:
    assert part.files.adds is not None
    return part.files.adds.slice(part.first, part.end - part.first)


def _kept(files: pa.Table, options: SourceOptions) -> pa.Table:
    assert options.exclude is not None
    mask = [options.exclude.search(path) is None for path in pc.cast(files["path"], pa.string()).to_pylist()]
    return files.filter(pa.array(mask, pa.bool_()))
