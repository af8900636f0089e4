"""Jars of compiled classes, kept from one start to the next in a folder that only the user can write to.

A user who can write such a jar can run code in the driver of the user who loads it. A kept jar is trusted for one
reason: no other user, except root, could have written it. So each path is checked before use, and one that fails is
not used.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import io
import logging
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

_LOG = logging.getLogger("anabranch.spark")

CACHE_VARIABLE = "ANABRANCH_CACHE"
"""The environment variable with the folder, or `off`."""

UNUSED_MAX_S = 30 * 24 * 60 * 60
"""A jar of other sources, or of another Spark, is removed when it has not been read for this time."""

_HASH_DIGITS = 32
_SOURCE_CLASS = "delta.DefaultSource"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
"""The file by which Spark finds the source by its short name in any case: `USING DELTA`. By the class alone it finds
only the lower case."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest date in a zip file. All entries have it, so that a jar has the same bytes at each time."""

_problems_logged: set[str] = set()


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """The folder for jars: `ANABRANCH_CACHE`, else the user's cache folder; None where no jars are to be kept."""
    named = environment.get(CACHE_VARIABLE, "").strip()
    if named.lower() == "off":
        return None
    if named:
        return Path(os.path.expanduser(named)).absolute()
    caches = Path(environment.get("XDG_CACHE_HOME", ""))
    if not caches.is_absolute():
        caches = Path(os.path.expanduser("~/.cache"))
    return caches / "anabranch" if caches.is_absolute() else None


def jar_file_name(*, spark_version: str, digest: str) -> str:
    """The name of a jar's file, such as `delta-4.3.0-0f3c….jar`."""
    return f"delta-{re.sub(r'[^0-9A-Za-z.+_-]', '_', spark_version)}-{digest}.jar"


def jar_path(folder: Path, file_name: str) -> Path | None:
    """The path of jar `file_name` in `folder`, which is made if it does not exist.

    None if another user could have written that jar: a warning says why, once in a process. None also if the folder
    cannot be made.
    """
    try:
        path = folder.parent.resolve() / folder.name / file_name
        problem = _problem_of_parents(path.parent) or _problem_of_folder(path.parent) or _problem_of_jar(path)
    except (OSError, RuntimeError) as error:
        _LOG.info("Compiled classes are not kept: %s", error)
        return None
    if problem is None:
        return path
    if problem not in _problems_logged:
        _problems_logged.add(problem)
        _LOG.warning(
            "Compiled classes are not kept, but compiled again at each start: %s. Set %s to a folder of yours alone, "
            "or to off.",
            problem,
            CACHE_VARIABLE,
        )
    return None


def kept_jar(path: Path, *, digest: str, now_s: float) -> Path | None:
    """The jar at `path`, marked as used now; None without one, or if it is damaged or has another digest."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _LOG.info("%s cannot be read and is made again: %s", path, error)
        return None
    if not is_whole(content, digest=digest):
        _LOG.info("%s is damaged and made again", path)
        return None
    with contextlib.suppress(OSError):
        # A file system may be mounted so that reading does not set the access time.
        os.utime(path, ns=(int(now_s * 1e9), path.stat().st_mtime_ns))
    return path


def keep_jar(path: Path, content: bytes, *, now_s: float) -> Path | None:
    """Writes `content` to `path` and removes jars that are long unused; None where it cannot be written.

    Other processes see no jar or a complete one; a process that has the old file open continues to read that.
    """
    written: str | None = None
    try:
        descriptor, written = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(written, path)
    except OSError as error:
        _LOG.info("Compiled classes are not kept: %s", error)
        if written is not None:
            with contextlib.suppress(OSError):
                os.unlink(written)
        return None
    _remove_unused(path, now_s=now_s)
    return path


def temporary_jar(file_name: str, content: bytes) -> Path:
    """A jar in a temporary folder of its own, which is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-"))
    atexit.register(_remove, folder, process=os.getpid())
    path = folder / file_name
    path.write_bytes(content)
    return path


def jar_bytes(classes: Mapping[str, bytes], *, digest: str) -> bytes:
    """A jar of `classes`, byte code by full name. Its comment is `digest`, and a hash of all bytes before."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        for name, code in sorted(classes.items()):
            entry = zipfile.ZipInfo(f"{name.replace('.', '/')}.class", _FIRST_DATE)
            jar.writestr(entry, code, zipfile.ZIP_DEFLATED)
        if _SOURCE_CLASS in classes:
            jar.writestr(zipfile.ZipInfo(_SERVICE, _FIRST_DATE), f"{_SOURCE_CLASS}\n")
        jar.comment = digest.encode() + b"0" * _HASH_DIGITS
    content = buffer.getvalue()[:-_HASH_DIGITS]
    return content + _hash(content)


def is_whole(jar: bytes, *, digest: str) -> bool:
    """Whether these are the unchanged bytes of a jar that `jar_bytes` made with that digest."""
    content = jar[:-_HASH_DIGITS]
    return content.endswith(digest.encode()) and jar[-_HASH_DIGITS:] == _hash(content)


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_HASH_DIGITS // 2).hexdigest().encode()


def _problem_of_parents(folder: Path) -> str | None:
    """Makes missing parents of `folder`, and checks all: a user who may rename one of them could replace it."""
    for parent in reversed(folder.parents):
        try:
            status = os.lstat(parent)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, 0o700)
            status = os.lstat(parent)
        if status.st_uid not in {0, _user()}:
            return f"{parent} belongs to another user"
        # Homes that the group may write to are common where each user has a group of their own.
        if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            return f"everybody may write to {parent}"
    return None


def _problem_of_folder(folder: Path) -> str | None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is not a folder but a link or a file"
    if status.st_uid != _user():
        return f"{folder} belongs to another user"
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"{folder} is open to other users (chmod 700 would close it)"
    return None


def _problem_of_jar(path: Path) -> str | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return f"{path} is not a file but a link or a folder"
    if status.st_uid != _user():
        return f"{path} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to {path}"
    return None


def _user() -> int:
    """The user's id. Raises OSError where files have no owner, as on Windows."""
    user = getattr(os, "geteuid", None)
    if user is None:
        raise OSError("this system has no owners of files")
    return int(user())


def _remove_unused(path: Path, *, now_s: float) -> None:
    """Removes other jars, archives and temporary files in the folder of `path` that were not used for long."""
    with contextlib.suppress(OSError):
        for other in path.parent.iterdir():
            if other == path or not re.fullmatch(r"delta-.*\.jar|classes-.*\.jsa|\..*\.tmp", other.name):
                continue
            with contextlib.suppress(OSError):
                status = os.lstat(other)
                if stat.S_ISREG(status.st_mode) and max(status.st_atime, status.st_mtime) < now_s - UNUSED_MAX_S:
                    other.unlink()


def _remove(folder: Path, *, process: int) -> None:
    # A fork runs this, too, when it ends, and its parent still needs the folder.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
