"""Jars of compiled classes, kept from one start to the next in a folder of the user's alone.

Whoever can write such a jar runs code in the user's driver. A kept jar is trusted for one reason: nobody else, root
aside, could have put it there. So each place is looked at before use, and one that is in doubt is not used.
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
"""The environment variable that names the folder, or says `off`."""

UNUSED_MAX_S = 30 * 24 * 60 * 60
"""A jar of other sources, or of another Spark, is removed when nothing has read it for so long."""

_HASH_DIGITS = 32
_SOURCE_CLASS = "delta.DefaultSource"
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
"""By it Spark finds the source by its short name in any case: `USING DELTA`. By the class, in small letters alone."""
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip can tell: a jar is the same whenever it is made."""

_told: set[str] = set()


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """The folder that `environment` asks for: `ANABRANCH_CACHE`, else the user's cache. None where keeping is off."""
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
    """Such as `delta-4.3.0-0f3c….jar`."""
    return f"delta-{re.sub(r'[^0-9A-Za-z.+_-]', '_', spark_version)}-{digest}.jar"


def jar_place(folder: Path, file_name: str) -> Path | None:
    """Where jar `file_name` may be kept in `folder`, which is made if absent.

    None where somebody else could have written that jar: a warning tells why, once in a process. None too where the
    folder cannot be made.
    """
    try:
        place = folder.parent.resolve() / folder.name / file_name
        problem = _problem_of_parents(place.parent) or _problem_of_folder(place.parent) or _problem_of_jar(place)
    except (OSError, RuntimeError) as error:
        _LOG.info("Compiled classes are not kept: %s", error)
        return None
    if problem is None:
        return place
    if problem not in _told:
        _told.add(problem)
        _LOG.warning(
            "Compiled classes are not kept, and compiled anew at each start: %s. Set %s to a folder of yours alone, "
            "or to off.",
            problem,
            CACHE_VARIABLE,
        )
    return None


def kept_jar(place: Path, *, digest: str, now_s: float) -> Path | None:
    """The jar at `place`, noted as used now; None where there is none, or one that is damaged or of another digest."""
    try:
        content = place.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _LOG.info("%s cannot be read and is made anew: %s", place, error)
        return None
    if not is_whole(content, digest=digest):
        _LOG.info("%s is damaged and made anew", place)
        return None
    with contextlib.suppress(OSError):
        # A file system may be mounted so that reading leaves no trace.
        os.utime(place, ns=(int(now_s * 1e9), place.stat().st_mtime_ns))
    return place


def keep_jar(place: Path, content: bytes, *, now_s: float) -> Path | None:
    """Keeps `content` at `place` and clears away what is long unused; None where it cannot be written.

    Other processes find no jar or a whole one, and one that has the old file open goes on reading that.
    """
    written: str | None = None
    try:
        descriptor, written = tempfile.mkstemp(dir=place.parent, prefix=".", suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(written, place)
    except OSError as error:
        _LOG.info("Compiled classes are not kept: %s", error)
        if written is not None:
            with contextlib.suppress(OSError):
                os.unlink(written)
        return None
    _remove_unused(place, now_s=now_s)
    return place


def temporary_jar(file_name: str, content: bytes) -> Path:
    """A jar in a folder of its own, which is removed when this process ends."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-"))
    atexit.register(_remove, folder, process=os.getpid())
    place = folder / file_name
    place.write_bytes(content)
    return place


def jar_bytes(classes: Mapping[str, bytes], *, digest: str) -> bytes:
    """A jar of `classes`, byte code by full name. Its comment tells `digest`, and a hash of all that is before it."""
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
    """Whether these are the bytes of a jar of that digest, every one as `jar_bytes` made it."""
    content = jar[:-_HASH_DIGITS]
    return content.endswith(digest.encode()) and jar[-_HASH_DIGITS:] == _hash(content)


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_HASH_DIGITS // 2).hexdigest().encode()


def _problem_of_parents(folder: Path) -> str | None:
    """Makes the parents of `folder` that are missing. Whoever may rename one of them can put another in its place."""
    for parent in reversed(folder.parents):
        try:
            found = os.lstat(parent)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, 0o700)
            found = os.lstat(parent)
        if found.st_uid not in {0, _user()}:
            return f"{parent} belongs to another user"
        # A home that its group may write to is common where each user has a group of their own.
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"everybody may write to {parent}"
    return None


def _problem_of_folder(folder: Path) -> str | None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        return f"{folder} is not a folder but a link or a file"
    if found.st_uid != _user():
        return f"{folder} belongs to another user"
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"{folder} is open to other users (chmod 700 would close it)"
    return None


def _problem_of_jar(place: Path) -> str | None:
    try:
        found = os.lstat(place)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return f"{place} is not a file but a link or a folder"
    if found.st_uid != _user():
        return f"{place} belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to {place}"
    return None


def _user() -> int:
    """Raises OSError where files do not belong to users, as on Windows."""
    user = getattr(os, "geteuid", None)
    if user is None:
        raise OSError("this system cannot tell whose a file is")
    return int(user())


def _remove_unused(place: Path, *, now_s: float) -> None:
    """Removes what else stands in the folder of `place` and was long not used."""
    with contextlib.suppress(OSError):
        for other in place.parent.iterdir():
            if other == place or not re.fullmatch(r"delta-.*\.jar|\..*\.tmp", other.name):
                continue
            with contextlib.suppress(OSError):
                found = os.lstat(other)
                if stat.S_ISREG(found.st_mode) and max(found.st_atime, found.st_mtime) < now_s - UNUSED_MAX_S:
                    other.unlink()


def _remove(folder: Path, *, process: int) -> None:
    # A fork ends on its own, and its parent still has the folder.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
