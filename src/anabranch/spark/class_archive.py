"""An archive of Spark's classes: Java writes it when the second session ends, and later sessions start with it.

A JVM that maps a truncated archive crashes, and one that cannot create the file that it is to write does not start. So
an archive is written under a name of its own, is used under one that has its size, and is checked before each use.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark

from anabranch.booleans import parse_flag
from anabranch.java_search import JAVA_MIN, java_path, java_version
from anabranch.spark.extension.kept_jars import cache_folder, jar_path

_LOG = logging.getLogger("anabranch.spark")

ARCHIVE_SETTING = "spark.anabranch.classArchive"

CLAIM_MAX_S = 60 * 60
"""A session that is to write an archive and has not for so long may have been killed: another one writes it."""

FREE_BYTES_MIN = 2 * 1024**3
"""An archive has about 200 MB. A disk with less room than this is left alone."""

_MAGIC = (0xF00BABA8).to_bytes(4, "little")
"""The first bytes of an archive. Java writes them last, so a file that has them is complete."""

_PLAIN = re.compile(r"[\w/.+-]+", re.ASCII)
"""Paths that Java's and Spark's options take without quotes."""

_QUIET = "-XX:+IgnoreUnrecognizedVMOptions -Xshare:auto -Xlog:cds*=off -Xlog:class+path*=off"

_JAVA_MAX = 25
"""The newest Java whose options for logs were tried: a JVM does not start with an option that it does not know."""

_WITHOUT_COMPRESSED_POINTERS = re.compile(r"(3[2-9]|[4-9]\d|\d{3,})g|\d{5,}m|\d+t", re.IGNORECASE)
"""Sizes of the heap with which a JVM can neither use an archive of a smaller one, nor write one for it."""

_SETTINGS_OF_JVM = ("spark.driver.extraClassPath", "spark.driver.defaultJavaOptions")
_VARIABLES_OF_JVM = (
    *("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH"),
    *("SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
"""With any of these the JVM has options or a class path of the user's, for which no archive is written or used."""


def archive_options(settings: Mapping[str, str], environment: Mapping[str, str], *, spark_home: Path) -> str:
    """Java's options for a new JVM that loads classes from an archive, or writes one when it ends; "" for neither.

    Raises `InvalidOptionError` for a value of `ARCHIVE_SETTING` other than true and false.
    """
    if not parse_flag(ARCHIVE_SETTING, settings.get(ARCHIVE_SETTING, "true")):
        return ""
    if any(settings.get(name) for name in _SETTINGS_OF_JVM) or any(environment.get(name) for name in _VARIABLES_OF_JVM):
        return ""
    memory = settings.get("spark.driver.memory") or environment.get("SPARK_DRIVER_MEMORY", "")
    folder = cache_folder(environment)
    java = java_path(environment)
    if folder is None or java is None or not _PLAIN.fullmatch(str(folder)):
        return ""
    if _WITHOUT_COMPRESSED_POINTERS.match(memory):
        return ""
    home = Path(java).resolve().parent.parent
    try:
        # Without Java's own archive there is none of ours: other Javas than OpenJDK have none.
        base = (home / "lib" / "server" / "classes.jsa").stat()
        if not JAVA_MIN <= (java_version(java) or 0) <= _JAVA_MAX:
            return ""
        name = _name(home, f"{base.st_size} {base.st_mtime_ns}", spark_home)
        probe = jar_path(folder, f"{name}.jsa")
        return "" if probe is None else _options(probe.parent, name)
    except OSError as error:
        _LOG.info("No archive of classes is used: %s", error)
        return ""


def _name(home: Path, base: str, spark_home: Path) -> str:
    """The name of an archive, but for its size: which Java and which Spark it is of, then what is in both."""
    jars = sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in os.scandir(spark_home / "jars"))
    content = hashlib.blake2b(f"{base}\n{jars}".encode(), digest_size=8).hexdigest()
    return f"{_prefix(home, spark_home)}{content}"


def _prefix(home: Path, spark_home: Path) -> str:
    paths = hashlib.blake2b(f"{home}\n{spark_home}".encode(), digest_size=6).hexdigest()
    return f"classes-{pyspark.__version__}-{paths}-"


def _options(folder: Path, name: str) -> str:
    archive = _archive(folder, name) or _adopted(folder, name)
    if archive is not None:
        with contextlib.suppress(OSError):
            # The access time, by which unused files are removed.
            os.utime(archive, ns=(time.time_ns(), archive.stat().st_mtime_ns))
        return f"{_QUIET} -XX:+VerifySharedSpaces -XX:SharedArchiveFile={archive}"
    if shutil.disk_usage(folder).free < FREE_BYTES_MIN or not _claimed(folder / f".{name}.tmp"):
        return ""
    return f"{_QUIET} -XX:ArchiveClassesAtExit={folder / f'.{name}-{secrets.token_hex(8)}.tmp'}"


def _archive(folder: Path, name: str) -> Path | None:
    """The archive of that name, if it has the size that its name says."""
    for path in folder.glob(f"{name}-*.jsa"):
        usable = jar_path(folder, path.name)
        if usable is not None and path.name == f"{name}-{path.stat().st_size}.jsa" and _is_complete(usable):
            return usable
        _remove(path)
    return None


def _adopted(folder: Path, name: str) -> Path | None:
    """An archive that an earlier session has written, under the name by which it is used."""
    for written in folder.glob(f".{name}-*.tmp"):
        if jar_path(folder, written.name) is None or not _is_complete(written):
            continue
        descriptor = os.open(written, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        archive = folder / f"{name}-{written.stat().st_size}.jsa"
        os.replace(written, archive)
        _remove(folder / f".{name}.tmp")
        prefix = name[: name.rindex("-") + 1]
        for older in (*folder.glob(f"{prefix}*.jsa"), *folder.glob(f".{name}-*.tmp")):
            if older != archive:
                # A JVM that has it mapped keeps it.
                _remove(older)
        return archive
    return None


def _is_complete(path: Path) -> bool:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _claimed(claim: Path) -> bool:
    """Whether this session, and no other in the next time, is to write the archive.

    The first session of all only leaves a claim that has expired, so that the next one writes: where each session has
    a new container, an archive would take time and space and never be used.
    """
    is_first = False
    try:
        if time.time() - claim.lstat().st_mtime < CLAIM_MAX_S:
            return False
        claim.unlink()
    except FileNotFoundError:
        is_first = True
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    if is_first:
        expired = time.time() - CLAIM_MAX_S
        os.utime(claim, (expired, expired))
    return not is_first


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
