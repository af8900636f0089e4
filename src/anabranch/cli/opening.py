"""From the TABLE of a command line to its log."""

from __future__ import annotations

import os
from collections.abc import Sequence

from anabranch.clock import SystemClock
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.log import TableNotFoundError
from anabranch.snapshot.snapshots import Snapshots
from anabranch.storage.elsewhere import open_reaching
from anabranch.storage.log_store import LogStore
from anabranch.storage.opening import scheme_of


def open_snapshots(table: str, options: Sequence[str]) -> Snapshots:
    """The versions of the table at a path or URL. Nothing is read yet.

    Raises `InvalidArgumentError`, `UnsupportedStorageError`, `StorageOptionError`, `TableNotFoundError`
    (for a local folder that is not there).
    """
    return Snapshots(open_table_store(table, options), SystemClock())


def open_table_store(table: str, options: Sequence[str]) -> LogStore:
    """The files of the table. Raises as `open_snapshots`."""
    store = open_reaching(table, storage_options(options))
    if scheme_of(table) in {"", "file"} and not os.path.isdir(store.root):
        raise TableNotFoundError(table=store.root)
    return store


def storage_options(options: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping.

    Raises `InvalidArgumentError`, which does not repeat the value: it may be secret.
    """
    found: dict[str, str] = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or not key.strip():
            problem = "write it as KEY=VALUE, such as fs.s3a.endpoint=http://localhost:9000"
            raise InvalidArgumentError(argument="--option", value=key, problem=problem)
        found[key.strip()] = value
    return found
