"""Resolves paths and names to tables: by the folder, or by the session's catalog.

A path may end in a version, a time, or folders of partitions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import unquote

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import StatementInTransactionError
from anabranch.errors.tables import LocationInTableError, NotADeltaTableError, TableLocationMismatchError
from anabranch.progress.progress_events import reporting
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.gateway.garbage_collection import FRAME_GARBAGE
from anabranch.spark.gateway.job_failures import job_failure
from anabranch.spark.session.catalog import CatalogEntry
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import (
    NameIdentifier,
    PathIdentifier,
    TableIdentifier,
    is_absolute_path,
    parse_identifier,
)
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.multi_statement.open_transaction import OpenTransaction, open_transaction
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.transaction import Transaction

_VERSION_SUFFIX = re.compile(r"^(.*)@[vV](\d+)$", re.DOTALL)
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_TIMESTAMP_SUFFIX = re.compile(r"^(.*)@(\d{17})$", re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimeTravel:
    """The version to read, by number or by time; the newest without either."""

    version: int | None = None
    timestamp: str | datetime | None = None
    """A string is cast as Spark does, in the session's time zone."""

    @property
    def is_newest(self) -> bool:
        return self.version is None and self.timestamp is None


NEWEST = TimeTravel()


def split_time_travel(path: str) -> tuple[str, TimeTravel]:
    """The path or name without `@v3` or `@20240131093000000`, and the version that this suffix names."""
    if match := _VERSION_SUFFIX.match(path):
        return match[1], TimeTravel(version=int(match[2]))
    if match := _TIMESTAMP_SUFFIX.match(path):
        digits = match[2]
        text = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:14]}.{digits[14:]}"
        return match[1], TimeTravel(timestamp=text)
    return path, NEWEST


def split_partitions(path: str) -> tuple[str, dict[str, str | None]]:
    """Split `/t/date=2024-01-01/part=2` into `/t` and the values by column; other paths have no values.

    Names of folders are escaped as Hive does: some characters by `%` and two digits, and NULL by a reserved name.
    """
    values: dict[str, str | None] = {}
    root = path.rstrip("/")
    while "=" in root.rsplit("/", 1)[-1]:
        root, folder = root.rsplit("/", 1)
        column, value = folder.split("=", 1)
        values[unquote(column)] = None if value == _NULL_FOLDER else unquote(value)
    return root, dict(reversed(values.items()))


LOGGER = logging.getLogger("anabranch.commit")
LISTED_FILES_MAX = 100
_PARTS = frozenset({"WRITE", "DELETE", "UPDATE", "MERGE", "TRUNCATE"})
"""The operations that can be parts of a transaction of several statements."""
USER_METADATA_SETTING = "spark.databricks.delta.commitInfo.userMetadata"


@functools.lru_cache(maxsize=256)
def _label_of_path(path: str) -> str:
    return str(PathIdentifier(path))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableRef:
    """One table in one Spark session. The table need not exist yet."""

    session: DeltaSession
    path: str
    """The folder, with the scheme of the session's file system."""
    storage: tuple[tuple[str, str], ...] = ()
    """`fs.*` settings for this table alone, which override the session's."""
    entry: CatalogEntry | None = None
    """The entry in the catalog, where the table was resolved by name."""
    transaction: str | None = None
    """The key of the transaction in which the table was resolved, for the same rows in all copies of the session."""

    @property
    def delta_log(self) -> DeltaLog:
        """The log of the table, as the session's transaction sees it while it has one."""
        transaction, log = self.open_transaction, self.committed_log
        return log if transaction is None else transaction.log_of(log)

    @property
    def committed_log(self) -> DeltaLog:
        """The log of the table as all sessions see it."""
        return self.session.delta_log(self.path, dict(self.storage))

    @property
    def open_transaction(self) -> OpenTransaction | None:
        """The transaction of several statements of which statements on the table are a part."""
        resolved_in = None if self.transaction is None else open_transaction(self.transaction)
        return resolved_in or self.session.transaction

    @property
    def label(self) -> str:
        """The name of the table in messages."""
        return str(self.entry.name) if self.entry else _label_of_path(self.path)

    def latest(self) -> Snapshot:
        """The newest version. Raises `NotADeltaTableError` where there is no table."""
        snapshot = self.delta_log.snapshots.latest_or_none()
        if snapshot is None:
            raise no_table(self)
        return snapshot

    def begin_at(self, operation: Operation, *, snapshot: Snapshot | None) -> Transaction:
        """A transaction on a version that has been read. Its commit records the user, and the session's user metadata.

        Without a version it creates the table. Spark's UI shows its jobs with the operation and the table. Raises as
        `check_new_folder`.
        """
        if snapshot is None:
            check_new_folder(self)
        whole = self.open_transaction
        check_may_be_part(self, operation.name)
        if whole is not None:
            whole.choose_target(self.committed_log, self, operation.name, label=self.label)
        self.session.describe_jobs(f"{operation.name} {self.label}")
        user_metadata = operation.user_metadata
        if user_metadata is None:
            user_metadata = self.session.setting(USER_METADATA_SETTING)
        recorded = dataclasses.replace(operation, user_metadata=user_metadata, user=self.session.user)
        return self.delta_log.begin_at(recorded, snapshot=snapshot)

    def begin_whole(self, operation: Operation, *, snapshot: Snapshot) -> Transaction:
        """The transaction that commits several statements, which began with this version."""
        self.session.describe_jobs(f"{operation.name} {self.label}")
        user_metadata = self.session.setting(USER_METADATA_SETTING)
        recorded = dataclasses.replace(operation, user_metadata=user_metadata, user=self.session.user)
        return self.committed_log.begin_at(recorded, snapshot=snapshot)


def check_may_be_part(table: TableRef, operation: str) -> None:
    """Raises `StatementInTransactionError` in a transaction for a statement that cannot be a part of it."""
    if operation in _PARTS or table.open_transaction is None:
        return
    problem = "only INSERT, DELETE, UPDATE, MERGE, TRUNCATE and writes of frames can"
    raise StatementInTransactionError(table=table.label, operation=operation, problem=problem)


P = ParamSpec("P")
R = TypeVar("R")


@contextlib.contextmanager
def one_statement(table: TableRef, operation: str, *, shown: bool = True) -> Iterator[None]:
    """A block that is one statement: its progress is reported, and Spark's UI shows its jobs with what they do.

    With `shown` false no display shows it. Raises `JobFailedError` where Spark's executors, memory or disks end a job.
    """
    check_may_be_part(table, operation)
    session = table.session
    begin = time.monotonic()
    try:
        with (
            reporting(operation, table.label, setting=session.setting, count_tasks=session.count_tasks, shown=shown),
            session.described_jobs(),
        ):
            yield
    except Exception as failure:
        typed = job_failure(failure, operation, table.label)
        if typed is None:
            raise
        raise typed from failure
    # Nothing refers to the statement's frames any more.
    if (time.monotonic() - begin) * 1000 >= FRAME_GARBAGE.worth_ms:
        FRAME_GARBAGE.collect()


def reports_progress(
    operation: str,
) -> Callable[[Callable[Concatenate[TableRef, P], R]], Callable[Concatenate[TableRef, P], R]]:
    """The decorator of a command whose first argument is the table: its progress is reported as this operation."""

    def decorate(run: Callable[Concatenate[TableRef, P], R]) -> Callable[Concatenate[TableRef, P], R]:
        @functools.wraps(run)
        def reported(table: TableRef, /, *arguments: P.args, **options: P.kwargs) -> R:
            with one_statement(table, operation):
                return run(table, *arguments, **options)

        return reported

    return decorate


def no_table(table: TableRef) -> NotADeltaTableError:
    """The error for a path or name without a table, which says what is there instead, and how to make a table of it."""
    with contextlib.suppress(DeltaError):
        root, partitions = split_partitions(table.path)
        if partitions and _is_table(table, root):
            return NotADeltaTableError(table=table.label, found=f"it is a partition of the table in {root}")
        if holds_parquet(table):
            convert = f"its files are Parquet; CONVERT TO DELTA parquet.`{table.path}` makes a table of them"
            return NotADeltaTableError(table=table.label, found=convert)
    return NotADeltaTableError(table=table.label)


def holds_parquet(table: TableRef) -> bool:
    """Whether there are Parquet files among the first files of the folder."""
    # Several files, as there may be markers such as `_SUCCESS`; not all, as the folder may be huge.
    files = islice(table.delta_log.store.list_tree(), LISTED_FILES_MAX)
    return any(file.path.endswith(".parquet") for file in files)


def warn_of_parquet(table: TableRef) -> None:
    """Log a warning where the folder of a new table holds Parquet files, which are no part of the table."""
    if holds_parquet(table):
        LOGGER.warning(
            "%s becomes a Delta table of the rows written now; the Parquet files in its folder are not "
            "part of it. To keep their rows, run CONVERT TO DELTA parquet.`%s` before the first write",
            table.label,
            table.path,
        )


def existing_table_at(session: DeltaSession, path: str, options: Mapping[str, str] | None = None) -> TableRef:
    """The table in a folder. Raises `NotADeltaTableError`, with a hint where the path is the name of a table."""
    table = table_at(session, path, options)
    try:
        table.latest()
    except NotADeltaTableError as error:
        if error.found or not _names_delta(session, path):
            raise
        named = f"{path} is the name of one: use DeltaTable.forName"
        raise NotADeltaTableError(table=table.label, found=named) from None
    return table


def _names_delta(session: DeltaSession, text: str) -> bool:
    try:
        return is_delta_identifier(session, parse_identifier(text))
    except DeltaError:
        return False


def table_at(
    session: DeltaSession, path: str, options: Mapping[str, str] | None = None, *, transaction: str | None = None
) -> TableRef:
    """The table, existing or not, whose folder is `path`."""
    storage = {key: value for key, value in (options or {}).items() if key.startswith(("fs.", "dfs."))}
    return TableRef(
        session=session,
        path=session.qualified_path(path),
        storage=tuple(sorted(storage.items())),
        transaction=transaction,
    )


def table_to_write(session: DeltaSession, path: str, options: Mapping[str, str] | None = None) -> TableRef:
    """The table, existing or not, to which a write to `path` goes. Raises as `check_new_folder`."""
    table = table_at(session, path, options)
    if table.delta_log.snapshots.latest_or_none() is None:
        check_new_folder(table)
    return table


def check_new_folder(new: TableRef) -> None:
    """Refuse to create a table in a folder that is a part of another table.

    A folder may be called `base@v0` or `k=1`. Such a path names a version or a partition only where the folder above
    is a table; then a version raises `InvalidOptionError`, and a partition `LocationInTableError`, as does a path into
    a log.
    """
    if "_delta_log" in new.path.split("/"):
        raise LocationInTableError(table=new.label, outer=new.path.partition("/_delta_log")[0], part="its log")
    plain, travel = split_time_travel(new.path)
    if not travel.is_newest and _is_table(new, plain):
        raise InvalidOptionError(
            option="path", value=new.path, problem=f"an old version cannot be written to; use {plain}"
        )
    root, partitions = split_partitions(plain)
    if partitions and _is_table(new, root):
        raise LocationInTableError(table=new.label, outer=root, part="one of its partitions")


def _is_table(new: TableRef, path: str) -> bool:
    return table_at(new.session, path, dict(new.storage)).delta_log.snapshots.latest_or_none() is not None


def table_named(session: DeltaSession, text: str) -> TableRef:
    """The existing table that `text` names. Raises `NotADeltaTableError`."""
    if is_absolute_path(text):
        path = f"it is a path, and not a name: use DeltaTable.forPath, or delta.`{text}`"
        raise NotADeltaTableError(table=text, found=path)
    return table_identified(session, parse_identifier(text))


def table_identified(
    session: DeltaSession,
    identifier: TableIdentifier,
    *,
    of_view: type[NotADeltaTableError] = NotADeltaTableError,
) -> TableRef:
    """The existing table of this identifier. Raises `NotADeltaTableError`, or `of_view` where it is that of a view."""
    if isinstance(identifier, PathIdentifier):
        table = table_at(session, identifier.path)
        table.latest()
        return table
    if session.catalog.is_temporary_view(identifier):
        raise of_view(table=str(identifier), found="it is a temporary view")
    entry = session.catalog.find(identifier)
    if entry is None:
        raise NotADeltaTableError(table=str(identifier), found="the catalog has no such table")
    if not entry.is_delta:
        if entry.provider:
            raise NotADeltaTableError(table=str(identifier), found=f"it is a {entry.provider} table")
        raise of_view(table=str(identifier), found="it is a view")
    return table_of_entry(session, entry)


def table_to_create(
    session: DeltaSession, identifier: NameIdentifier, *, location: str | None, replaces: bool = False
) -> TableRef:
    """The table of this name, or the table that is to be created by this name at `location`.

    Without a location it is a managed table, for which the catalog chooses the folder. Raises `NotADeltaTableError`
    where the name is that of a table of another format, or of a view, and `TableLocationMismatchError` where a
    statement that `replaces` a table names another location than the table's.
    """
    name = session.catalog.qualified(identifier)
    entry = session.catalog.find(name)
    if entry is not None:
        if not entry.is_delta:
            kind = f"it is a {entry.provider} table" if entry.provider else "it is a view"
            raise NotADeltaTableError(table=str(entry.name), found=kind)
        table = table_of_entry(session, entry)
        if replaces and location is not None and session.qualified_path(location) != table.path:
            raise TableLocationMismatchError(table=table.label, location=location, existing=table.path)
        return table
    new = session.catalog.new_entry(name, location)
    assert new.location is not None
    return table_of_entry(session, dataclasses.replace(new, location=session.qualified_path(new.location)))


def is_delta_identifier(session: DeltaSession, identifier: TableIdentifier) -> bool:
    """Whether the identifier is a path, or the name of a Delta table in the catalog."""
    if isinstance(identifier, PathIdentifier):
        return True
    entry = _entry_of(session, identifier)
    return entry is not None and entry.is_delta


def _entry_of(session: DeltaSession, name: NameIdentifier) -> CatalogEntry | None:
    """The entry of that name in the catalog; None where a temporary view hides it."""
    return None if session.catalog.is_temporary_view(name) else session.catalog.find(name)


def table_of_entry(session: DeltaSession, entry: CatalogEntry, *, transaction: str | None = None) -> TableRef:
    """The table of an entry of the catalog, which must have a location."""
    assert entry.location is not None
    return TableRef(
        session=session,
        path=session.qualified_path(entry.location),
        entry=entry,
        transaction=transaction,
    )
