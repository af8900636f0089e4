"""What anabranch keeps for one Spark session: its engine, its catalog and the tables opened through it."""

from __future__ import annotations

import functools
import logging
import random
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from anabranch.clock import Clock, SystemClock
from anabranch.protocol.time_zones import TimeZone
from anabranch.spark.extension.answer_threads import is_answering
from anabranch.spark.native.jvm_time_zones import session_zone
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.spark.rows.row_locator import RowLocator
from anabranch.spark.session.classic_catalog import ClassicCatalog
from anabranch.spark.session.folder_catalog import CatalogsOfSession
from anabranch.spark.session.session_settings import identity, parse_flag
from anabranch.storage.external_files import (
    PREFIX_SETTING,
    ExternalFileStore,
    canonical_root,
    parse_allowed_prefixes,
)
from anabranch.storage.hadoop.hadoop_store import HadoopSession
from anabranch.storage.log_store import LogStore
from anabranch.storage.opening.store_opening import open_store
from anabranch.transaction.delta_log import DeltaLog

logger = logging.getLogger("anabranch.spark")

TABLES_KEPT_MAX = 64
PATHS_KEPT_MAX = 1024
USER_SETTING = "spark.anabranch.user"
LAST_VERSION_SETTING = "spark.databricks.delta.lastCommitVersionInSession"
"""Where programs written for Delta look for the version of the last commit, of whatever table."""

SESSIONS_KEPT_MAX = 8
"""How many are kept though the user has let go of the session, or never had it, as with a stream's."""
_KEPT = "_anabranch_delta_session"
"""Attribute of the objects that stand for a session in Python, by which one lives as long as they do."""

_sessions: weakref.WeakValueDictionary[str, DeltaSession] = weakref.WeakValueDictionary()
"""By identity of the session."""
_recent: OrderedDict[str, DeltaSession] = OrderedDict()
_lock = threading.Lock()


def open_table_with(path: str) -> tuple[str, DeltaLog] | None:
    """The innermost of the tables opened by any session whose folder a file lies in, with its root."""
    with _lock:
        sessions = list(_sessions.values())
    tables = {root: table for session in sessions for root, table in session.opened()}
    roots = [root for root in tables if path == root or path.startswith(f"{root.rstrip('/')}/")]
    root = max(roots, key=len, default=None)
    return None if root is None else (root, tables[root])


class DeltaSession:
    """A Spark session as a Delta table sees it. One per session: `DeltaSession.of(spark)`."""

    refresh_cached: ClassVar[Callable[[SparkSession, str], None] | None] = None
    """Makes Spark read anew what it keeps in memory of the table in a folder, after our commits. All sessions of an
    application share what is kept."""
    check_place: ClassVar[Callable[[SparkSession, str, Mapping[str, str]], None] | None] = None
    """Raises where a session may not use a folder, or a file system as options have it: clients of a driver that
    serves."""
    login_of: ClassVar[Callable[[SparkSession], str | None] | None] = None
    """The name by which the client of a session logged in, None where it was not asked for one."""
    kept_max: ClassVar[int] = SESSIONS_KEPT_MAX
    """A driver that serves clients keeps more, and lets go of them when they end."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.clock: Clock = SystemClock()
        self.random: random.Random = random.SystemRandom()
        self.engine = NativeEngine(spark)
        # The function does not hold this object: it goes with the last who uses it.
        self.catalog = CatalogsOfSession(spark, ClassicCatalog(spark), functools.partial(_open_root, spark))
        self._tables: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], DeltaLog] = OrderedDict()
        self._qualified: dict[str, str] = {}
        self._cloned: dict[str, tuple[str, ...]] = {}
        """Where clones made by this session have files of their sources, by root."""
        self._guard = threading.Lock()
        self._used = time.monotonic()

    @classmethod
    def of(cls, spark: SparkSession) -> DeltaSession:
        """The one that belongs to `spark`, made at first use. It ends with the session."""
        key = identity(spark)
        with _lock:
            found = _sessions.get(key)
            if found is None:
                found = _sessions[key] = cls(spark)
            vars(spark)[_KEPT] = found
            _recent[key] = found
            _recent.move_to_end(key)
            found._used = time.monotonic()
            while len(_recent) > cls.kept_max:
                _recent.popitem(last=False)
            return found

    @staticmethod
    def let_go(keys: Iterable[str]) -> int:
        """Keep nothing any more for the sessions of these identities, which have ended; for how many something was."""
        with _lock:
            return sum(_recent.pop(key, None) is not None for key in keys)

    @staticmethod
    def unused(seconds: float) -> set[str]:
        """The identities of sessions for which something is kept, and that were not asked for in the last `seconds`."""
        with _lock:
            before = time.monotonic() - seconds
            return {key for key, kept in _recent.items() if kept._used < before}

    def table(self, path: str, options: Mapping[str, str] | None = None) -> DeltaLog:
        """The table at `path`, with whatever of it is cached; there need not be a table yet.

        `options` are `fs.*` settings for this table alone; they go before the session's.
        """
        root = self.qualified_path(path)
        extra = tuple(sorted((options or {}).items()))
        with self._guard:
            table = self._tables.get((root, extra))
            if table is None:
                table = self._open(root, dict(extra))
                self._tables[root, extra] = table
                while len(self._tables) > TABLES_KEPT_MAX:
                    self._tables.popitem(last=False)
            self._tables.move_to_end((root, extra))
            return table

    def describe_jobs(self, text: str) -> None:
        """Spark's UI shows `text` beside the jobs of this answer from now on, where the user has described none."""
        if is_answering():
            self.spark._jvm.delta.JobDescriptions.describe(text)  # type: ignore[union-attr]

    def opened(self) -> list[tuple[str, DeltaLog]]:
        """The tables that are open, with their roots."""
        with self._guard:
            return [(root, table) for (root, _), table in self._tables.items()]

    def places_of(self, root: str) -> tuple[str, ...]:
        """Where the table at `root` may have files outside its folder: what the user allows, and what was cloned."""
        allowed = parse_allowed_prefixes(self.setting(PREFIX_SETTING))
        with self._guard:
            cloned = self._cloned.get(canonical_root(root), ())
        return tuple(dict.fromkeys((*allowed, *cloned)))

    def allow_places(self, root: str, places: Iterable[str]) -> None:
        """Let the table at `root` have files below `places` as long as the session lives: it was cloned from there."""
        with self._guard:
            known = self._cloned.get(canonical_root(root), ())
            self._cloned[canonical_root(root)] = tuple(dict.fromkeys((*known, *map(canonical_root, places))))

    def forget(self, path: str) -> None:
        """Drop what is cached of the table at `path`."""
        root = self.qualified_path(path)
        with self._guard:
            for key in [key for key in self._tables if key[0] == root]:
                del self._tables[key]
            self._cloned.pop(canonical_root(root), None)

    def qualified_path(self, path: str) -> str:
        """`path` with the session's default file system, as Hadoop writes it."""
        known = self._qualified.get(path)
        if known is None:
            known = self._qualify(path)
            if len(self._qualified) < PATHS_KEPT_MAX:
                self._qualified[path] = known
        return known

    def _qualify(self, path: str) -> str:
        if "://" in path and not path.startswith("file:"):
            # Complete as it is; the storage may be one that Spark itself has no classes for.
            return path.rstrip("/")
        jvm: Any = self.spark.sparkContext._jvm
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        file_system = hadoop_path.getFileSystem(self._hadoop_configuration())
        qualified = str(file_system.makeQualified(hadoop_path).toString())
        return qualified.removeprefix("file:") if qualified.startswith("file:/") else qualified

    def store(self, path: str) -> LogStore:
        """The storage at `path`, with the session's settings, for what is no table."""
        return self._store(self.qualified_path(path), {})

    def setting(self, key: str, default: str | None = None) -> str | None:
        """A runtime setting of the session, or `default` where it is not set."""
        return self.spark.conf.get(key, default)

    @property
    def user(self) -> str | None:
        """Who commits by this session: who logged in, else as the setting says, else whom Spark runs as."""
        login = None if DeltaSession.login_of is None else DeltaSession.login_of(self.spark)
        return login or self.setting(USER_SETTING) or self._spark_user

    @property
    def time_zone(self) -> TimeZone:
        """The zone in which the session reads and shows times, by the data of Spark's JVM."""
        return session_zone(self.spark)

    @functools.cached_property
    def _spark_user(self) -> str | None:
        return self.spark.sparkContext.sparkUser() or None

    def flag(self, key: str, *, default: bool) -> bool:
        """A runtime setting that is true or false. Raises `InvalidOptionError` for any other word."""
        text = self.setting(key)
        return default if text is None else parse_flag(key, text)

    def settings_below(self, prefix: str) -> dict[str, str]:
        """The settings whose key starts with `prefix`, under what follows it."""
        return {key.removeprefix(prefix): value for key, value in self.all_settings().items() if key.startswith(prefix)}

    def all_settings(self) -> dict[str, str]:
        """Every setting of the session."""
        return dict(self.spark.conf.getAll)

    def _open(self, root: str, options: dict[str, str]) -> DeltaLog:
        store = ExternalFileStore(
            self._store(root, options),
            allowed_prefixes=lambda: self.places_of(root),
            open_prefix=lambda place: self._store(place, options),
        )
        find_rows = RowLocator(self.spark, self.engine, store, root=root, storage=options)
        return DeltaLog(
            store,
            clock=self.clock,
            random=self.random,
            find_rows=find_rows,
            landed=lambda version: self._note_landed(root, version),
        )

    def _note_landed(self, root: str, version: int) -> None:
        self._refresh_cached(root)
        try:
            self.spark.conf.set(LAST_VERSION_SETTING, str(version))
        except Exception:
            logger.warning("%s was not set to %d", LAST_VERSION_SETTING, version, exc_info=True)

    def _refresh_cached(self, root: str) -> None:
        """What Spark keeps in memory of the table is read anew, once Spark itself knows such tables."""
        refresh = type(self).refresh_cached
        if refresh is None:
            return
        try:
            refresh(self.spark, root)
        except Exception:
            logger.warning("Rows of %s that are kept in memory may be old: run REFRESH TABLE", root, exc_info=True)

    def _store(self, root: str, options: dict[str, str]) -> LogStore:
        return _open_root(self.spark, root, options)

    def _hadoop_configuration(self) -> Any:
        return _hadoop_configuration(self.spark)


def _open_root(spark: SparkSession, root: str, options: Mapping[str, str] | None = None) -> LogStore:
    given = options or {}
    if DeltaSession.check_place is not None:
        DeltaSession.check_place(spark, root, given)
    hadoop = HadoopSession(gateway=spark.sparkContext._gateway, configuration=_hadoop_configuration(spark))
    return open_store(root, given, hadoop=hadoop)


def _hadoop_configuration(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()
