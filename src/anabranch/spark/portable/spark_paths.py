"""How data files are named to Spark's public readers, and how Spark names them back.

A path given to `spark.read` is a glob pattern. One that comes back from `_metadata` is percent-encoded, after a
prefix that Spark spells in several ways (`file:/`, `file:///`); so only ends of paths are ever compared.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from anabranch.errors.environment import DataFileUnknownToSparkError

_GLOB = re.compile(r"[\[\]{}*?\\]")
_SIMPLE = r"^[A-Za-z0-9._=/-]*$"
"""What no version of Spark encodes in a path."""
_PREFIX = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*:)?(//[^/]*)?/*")


def spark_path(name: str) -> str:
    """An absolute plain path as `spark.read` takes it for that one file.

    A path without a scheme is local. Spark would look for it in its default file system, so it gets its scheme.
    """
    return _GLOB.sub(r"\\\g<0>", f"file://{name}" if name.startswith("/") else name)


def is_beyond_spark(name: str) -> bool:
    """Whether `spark.read` cannot read the file.

    Spark passes over names that begin with `_` or `.`, without a word, and Hadoop takes what stands before a
    colon for a scheme when it lists files or expands a pattern.
    """
    last = name.rpartition("/")[2]
    hidden = last.startswith(".") or (last.startswith("_") and "=" not in last) or last.endswith("._COPYING_")
    path = _comparable(name)
    return hidden or ":" in last or (":" in path and _GLOB.search(path) is not None)


def tail_length(names: pa.Array) -> int:
    """How many last segments tell the names apart."""
    deepest = max((name.count("/") + 1 for name in names.slice(0, 1).to_pylist()), default=1)
    length = 1
    while length < deepest and pc.count_distinct(tails(names, length)).as_py() < len(names):
        length += 1
    return length


def tails(names: pa.Array, length: int) -> pa.Array:
    """The last `length` segments of each name."""
    pattern = rf"(?P<tail>[^/]*(?:/[^/]*){{{length - 1}}})$"
    return pc.struct_field(pc.extract_regex(names, pattern), "tail")


def are_simple(texts: pa.Array) -> bool:
    """Whether Spark spells the texts as they are."""
    return bool(pc.all(pc.match_substring_regex(texts, _SIMPLE)).as_py())


def spelled_by_spark(names: Sequence[str], listed: Sequence[str], *, table: str) -> list[str]:
    """The names in Spark's spelling, taken from the files that Spark itself lists, in the order of `names`.

    Raises `DataFileUnknownToSparkError`.
    """
    spelling = {_comparable(unquote(text)): text for text in listed}
    result = []
    for name in names:
        found = spelling.get(_comparable(name))
        if found is None:
            raise DataFileUnknownToSparkError(table=table, path=name)
        result.append(found)
    return result


def _comparable(plain: str) -> str:
    """The path alone; all names of a scan lie in one file system."""
    return _PREFIX.sub("", plain)


# Listing many files without a Spark task for each.


PARALLELISM = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_LISTED_ON_DRIVER_MAX = 32
_PATHS_PER_TASK = 64
_TASKS_MIN = 16
_lock = threading.Lock()


@contextlib.contextmanager
def few_listing_tasks(spark: SparkSession, path_count: int) -> Iterator[None]:
    """While a frame over so many paths is analysed, let a task list many of them.

    Spark makes a task for every path, up to 10,000, which takes fifteen times as long as the listing itself. The
    setting has no effect on what a query returns, so a query of another thread that meets it loses nothing.
    """
    if path_count <= _LISTED_ON_DRIVER_MAX:
        yield
        return
    with _lock:
        before = spark.conf.get(PARALLELISM, None)
        spark.conf.set(PARALLELISM, str(max(_TASKS_MIN, path_count // _PATHS_PER_TASK)))
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(PARALLELISM)
            else:
                spark.conf.set(PARALLELISM, before)
