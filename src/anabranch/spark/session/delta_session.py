"""One Spark session as anabranch uses it: its engine, its catalog and the tables opened through it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import random
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from anabranch.booleans import parse_flag
from anabranch.clock import Clock, SystemClock
from anabranch.progress.progress_events import current
from anabranch.protocol.time_zones import TimeZone
from anabranch.snapshot.snapshot_cache import SnapshotCache, shared_snapshots_of
from anabranch.spark.gateway.callback_endpoint import is_in_callback
from anabranch.spark.gateway.jvm_classes import split_map
from anabranch.spark.gateway.jvm_sessions import identity, session_zone
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.spark.rows.row_locator import RowLocator
from anabranch.spark.session.classic_catalog import ClassicCatalog
from anabranch.spark.session.folder_catalog import CatalogsOfSession
from anabranch.storage.external_files import (
    PREFIX_SETTING,
    ExternalFileStore,
    canonical_root,
    parse_allowed_prefixes,
)
from anabranch.storage.hadoop.hadoop_store import HadoopSession
from anabranch.storage.log_store import LogStore
from anabranch.storage.opening.store_opening import open_store
from anabranch.transactions.commit.commit_context import shared_queue_of
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.multi_statement.open_transaction import OpenTransaction

logger = logging.getLogger("anabranch.spark")

TABLES_KEPT_MAX = 64
PATHS_KEPT_MAX = 1024
USER_SETTING = "spark.anabranch.user"
LAST_VERSION_SETTING = "spark.databricks.delta.lastCommitVersionInSession"
"""The setting in which programs written for Delta find the version of the last commit to any table."""

SESSIONS_KEPT_MAX = 8
"""How many are kept although the program no longer refers to the session, or never did, as for a stream's."""
_KEPT = "_anabranch_delta_session"
"""The attribute of Spark's session objects in Python by which a `DeltaSession` lives as long as they do."""


class _Thread(threading.local):
    describes_jobs: bool = False


_thread = _Thread()
_sessions: weakref.WeakValueDictionary[str, DeltaSession] = weakref.WeakValueDictionary()
"""The objects in use, by the identity of the session."""
_recent: OrderedDict[str, DeltaSession] = OrderedDict()
_in_transaction: dict[str, DeltaSession] = {}
"""Those with a transaction of several statements, which they must not forget."""
_lock = threading.Lock()


def open_table_of_file(path: str) -> tuple[str, DeltaLog] | None:
    """The table that a file belongs to, with its root: the innermost that any session has open; None without one."""
    with _lock:
        sessions = list(_sessions.values())
    tables = {root: table for session in sessions for root, table in session.opened()}
    roots = [root for root in tables if path == root or path.startswith(f"{root.rstrip('/')}/")]
    root = max(roots, key=len, default=None)
    return None if root is None else (root, tables[root])


@dataclasses.dataclass(slots=True)
class SessionRules:
    """What a driver that serves clients sets for all sessions of its application."""

    check_path: Callable[[SparkSession, str, Mapping[str, str]], None] | None = None
    """Raises if a session may not use a folder, or a file system with these options."""
    login_of: Callable[[SparkSession], str | None] | None = None
    """Returns the name with which the client of a session logged in; None without a login."""
    kept_max: int = SESSIONS_KEPT_MAX
    """A driver that serves clients keeps more sessions, and releases them when they end."""
    transaction_begun: Callable[[str], None] | None = None
    """Called with the identity of each session that begins a transaction of several statements."""


SESSION_RULES: Final = SessionRules()


class DeltaSession:
    """A Spark session as a Delta table sees it. One per session: `DeltaSession.of(spark)`."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.key = identity(spark)
        """The identity of the session, in whatever object of Python."""
        self._transaction: OpenTransaction | None = None
        self.clock: Clock = SystemClock()
        self.random: random.Random = random.SystemRandom()
        self.engine = NativeEngine(spark)
        # The function does not refer to this object, which ends with its last user.
        self.catalog = CatalogsOfSession(spark, ClassicCatalog(spark), functools.partial(_open_root, spark))
        self._delta_logs: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], DeltaLog] = OrderedDict()
        self._qualified: dict[str, str] = {}
        self._cloned: dict[str, tuple[str, ...]] = {}
        """By root of a table: folders of other tables whose files it has, as a clone made by this session."""
        self._guard = threading.Lock()
        self._used = time.monotonic()

    @classmethod
    def of(cls, spark: SparkSession) -> DeltaSession:
        """The object of the session `spark`, made at first use. It ends with the session."""
        kept: DeltaSession | None = vars(spark).get(_KEPT)
        key = identity(spark) if kept is None else kept.key
        with _lock:
            session = kept or _sessions.get(key)
            if session is None:
                session = _sessions[key] = cls(spark)
            vars(spark)[_KEPT] = session
            _recent[key] = session
            _recent.move_to_end(key)
            session._used = time.monotonic()
            while len(_recent) > SESSION_RULES.kept_max:
                _recent.popitem(last=False)
            return session

    @staticmethod
    def release(keys: Iterable[str]) -> int:
        """Stops keeping the sessions of these identities, which have ended. Returns how many of them were kept.

        Their transactions are rolled back.
        """
        with _lock:
            kept = [key for key in keys if _recent.pop(key, None) is not None or key in _in_transaction]
            unfinished = [session for key in kept if (session := _in_transaction.pop(key, None)) is not None]
        for session in unfinished:
            session._roll_back()
        return len(kept)

    @staticmethod
    def unused(seconds: float) -> set[str]:
        """The identities of kept sessions that were not used in the last `seconds`."""
        with _lock:
            since = time.monotonic() - seconds
            return {key for key, session in _recent.items() if session._used < since and key not in _in_transaction}

    @property
    def transaction(self) -> OpenTransaction | None:
        """The transaction of several statements of which the session's statements are a part; None outside of one."""
        return self._transaction

    @transaction.setter
    def transaction(self, transaction: OpenTransaction | None) -> None:
        transactions: Any = self.spark._jvm.anabranch.Transactions  # type: ignore[union-attr]
        if transaction is None:
            transactions.end(self.spark._jsparkSession)
            with _lock:
                _in_transaction.pop(self.key, None)
        else:
            transactions.begin(self.spark._jsparkSession, transaction.key)
            with _lock:
                _in_transaction[self.key] = self
        self._transaction = transaction
        if transaction is not None and SESSION_RULES.transaction_begun is not None:
            SESSION_RULES.transaction_begun(self.key)

    def _roll_back(self) -> None:
        """End the transaction of a session that has ended."""
        transaction = self._transaction
        if transaction is None:
            return
        try:
            self.transaction = None
            transaction.end()
        except Exception:
            # What Spark kept for it may be gone together with the session.
            logger.debug("A transaction of a session that has ended was not released", exc_info=True)

    def delta_log(self, path: str, options: Mapping[str, str] | None = None) -> DeltaLog:
        """The log of the table at `path`, with its cached snapshots; the table need not exist yet.

        `options` are `fs.*` settings for this table alone; they go before the session's.
        """
        root = self.qualified_path(path)
        extra = tuple(sorted((options or {}).items()))
        with self._guard:
            delta_log = self._delta_logs.get((root, extra))
            if delta_log is None:
                delta_log = self._open(root, dict(extra))
                self._delta_logs[root, extra] = delta_log
                while len(self._delta_logs) > TABLES_KEPT_MAX:
                    self._delta_logs.popitem(last=False)
            self._delta_logs.move_to_end((root, extra))
            return delta_log

    def describe_jobs(self, text: str) -> None:
        """Describes the later jobs of this thread in Spark's UI, unless the user has described them.

        The description is that of the thread's statement, with its phase; `text` where none is reported.
        """
        statement = current()
        if statement is not None:
            text = statement.description
            if text == statement.description_of_jobs:
                return
            statement.description_of_jobs = text
        if is_in_callback() or _thread.describes_jobs:
            tag: str | None = self.spark._jvm.anabranch.JobDescriptions.describe(text)  # type: ignore[union-attr]
            if statement is not None:
                statement.job_tag = tag

    def count_tasks(self, tag: str, since_ms: int) -> tuple[int, int]:
        """How many tasks are done and how many there are, of jobs with this tag that began at `since_ms` or later."""
        done, total = self.spark._jvm.anabranch.JobDescriptions.tasks(tag, since_ms).split()  # type: ignore[union-attr]
        return int(done), int(total)

    @contextlib.contextmanager
    def described_jobs(self) -> Iterator[None]:
        """A block in which `describe_jobs` describes jobs. In a callback it always does, until that returns."""
        if is_in_callback() or _thread.describes_jobs:
            yield
            return
        descriptions: Any = self.spark._jvm.anabranch.JobDescriptions  # type: ignore[union-attr]
        before = descriptions.current()
        _thread.describes_jobs = True
        try:
            yield
        finally:
            _thread.describes_jobs = False
            try:
                descriptions.restore(before)
            except Exception:
                # The statement may be committed, so nothing may make it fail now.
                logger.debug("The description of jobs was not restored", exc_info=True)

    def opened(self) -> list[tuple[str, DeltaLog]]:
        """The roots of the tables that are open, with their logs."""
        with self._guard:
            return [(root, table) for (root, _), table in self._delta_logs.items()]

    def prefixes_for(self, root: str) -> tuple[str, ...]:
        """Folders outside `root` in which its table may have files: allowed by the user, or sources of a clone."""
        allowed = parse_allowed_prefixes(self.setting(PREFIX_SETTING))
        with self._guard:
            cloned = self._cloned.get(canonical_root(root), ())
        return tuple(dict.fromkeys((*allowed, *cloned)))

    def allow_prefixes(self, root: str, prefixes: Iterable[str]) -> None:
        """Allows the table at `root`, a clone, files in the folders `prefixes` as long as the session lives."""
        with self._guard:
            existing = self._cloned.get(canonical_root(root), ())
            self._cloned[canonical_root(root)] = tuple(dict.fromkeys((*existing, *map(canonical_root, prefixes))))

    def forget(self, path: str) -> None:
        """Drops the cached snapshots and the allowed prefixes of the table at `path`."""
        root = self.qualified_path(path)
        with self._guard:
            for key in [key for key in self._delta_logs if key[0] == root]:
                del self._delta_logs[key]
            self._cloned.pop(canonical_root(root), None)

    def qualified_path(self, path: str) -> str:
        """`path` with the session's default file system, as Hadoop writes it."""
        qualified = self._qualified.get(path)
        if qualified is None:
            qualified = self._qualify(path)
            with self._guard:
                # The oldest goes: a session that lives long asks for its newest tables.
                while len(self._qualified) >= PATHS_KEPT_MAX:
                    del self._qualified[next(iter(self._qualified))]
                self._qualified[path] = qualified
        return qualified

    def _qualify(self, path: str) -> str:
        if "://" in path and not path.startswith("file:"):
            # The path is complete, and Spark itself may have no classes for this storage.
            return path.rstrip("/")
        jvm: Any = self.spark.sparkContext._jvm
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        file_system = hadoop_path.getFileSystem(self._hadoop_configuration())
        qualified = str(file_system.makeQualified(hadoop_path).toString())
        return qualified.removeprefix("file:") if qualified.startswith("file:/") else qualified

    def store(self, path: str) -> LogStore:
        """The storage at `path`, which is no table, with the session's settings."""
        return self._store(self.qualified_path(path), {})

    def setting(self, key: str, default: str | None = None) -> str | None:
        """A runtime setting of the session, or `default` where it is not set."""
        return self.spark.conf.get(key, default)

    @property
    def user(self) -> str | None:
        """The user of this session's commits: the client's login, else the setting, else the user Spark runs as."""
        login = None if SESSION_RULES.login_of is None else SESSION_RULES.login_of(self.spark)
        return login or self.setting(USER_SETTING) or self._spark_user

    @property
    def time_zone(self) -> TimeZone:
        """The time zone of the session, by the data of Spark's JVM."""
        return session_zone(self.spark)

    @functools.cached_property
    def _spark_user(self) -> str | None:
        return self.spark.sparkContext.sparkUser() or None

    def flag(self, key: str, *, default: bool) -> bool:
        """A runtime setting that is true or false. Raises `InvalidOptionError` for any other word."""
        text = self.setting(key)
        return default if text is None else parse_flag(key, text)

    def all_settings(self) -> dict[str, str]:
        """Every setting of the session."""
        # An iteration over a map of the JVM ends with an error, whose kind PySpark finds out by a hundred calls.
        jvm: Any = self.spark._jvm
        return split_map(jvm.anabranch.TableFields.entries(self.spark._jsparkSession.conf().getAllAsJava()))

    def _open(self, root: str, options: dict[str, str]) -> DeltaLog:
        own = self._store(root, options)
        store = ExternalFileStore(
            own,
            allowed_prefixes=lambda: self.prefixes_for(root),
            open_prefix=lambda path: self._store(path, options),
        )
        find_rows = RowLocator(self.spark, self.engine, store, root=root, storage=options)
        queue = shared_queue_of(own)
        return DeltaLog(
            store,
            clock=self.clock,
            random=self.random,
            find_rows=find_rows,
            snapshots=SnapshotCache(store, self.clock, recent=queue.recent, shared=shared_snapshots_of(own)),
            queue=queue,
            landed=lambda version: self._note_commit(root, version),
        )

    def _note_commit(self, root: str, version: int) -> None:
        self.refresh_cached_rows(root)
        try:
            self.spark.conf.set(LAST_VERSION_SETTING, str(version))
        except Exception:
            logger.warning("%s was not set to %d", LAST_VERSION_SETTING, version, exc_info=True)

    def refresh_cached_rows(self, root: str) -> None:
        """Makes Spark read cached rows of the table again. All sessions of an application share the cache."""
        jvm: Any = self.spark._jvm
        try:
            jvm.anabranch.UserCache.refresh(self.spark._jsparkSession, root)
        except Exception:
            logger.warning("Cached rows of %s may be out of date: run REFRESH TABLE", root, exc_info=True)

    def _store(self, root: str, options: dict[str, str]) -> LogStore:
        return _open_root(self.spark, root, options)

    def _hadoop_configuration(self) -> Any:
        return _hadoop_configuration(self.spark)


def _open_root(spark: SparkSession, root: str, options: Mapping[str, str] | None = None) -> LogStore:
    options = options or {}
    if SESSION_RULES.check_path is not None:
        SESSION_RULES.check_path(spark, root, options)
    hadoop = HadoopSession(gateway=spark.sparkContext._gateway, configuration=_hadoop_configuration(spark))
    return open_store(root, options, hadoop=hadoop)


def _hadoop_configuration(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()
