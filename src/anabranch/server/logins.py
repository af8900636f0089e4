"""Names and passwords of those who may come in by JDBC, in a file of lines `name:hash`."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.environment import ExtensionNotLoadedError
from anabranch.server.java_classes import PACKAGE, server_classes
from anabranch.spark.session.delta_session import DeltaSession

logger = logging.getLogger("anabranch.server")

LOGIN_CLASS = f"{PACKAGE}.Login"
_CLASS_SETTING = "hive.server2.custom.authentication.class"
_METHOD = "pbkdf2_sha256"
_ITERATIONS = 600_000
_ITERATIONS_MIN = 1000
_ITERATIONS_MAX = 10_000_000
_SALT_BYTES = 16
_HASH_BYTES_MIN, _HASH_BYTES_MAX = 16, 64


def hashed(password: str) -> str:
    """`pbkdf2_sha256$iterations$salt$hash`, salt and hash in Base64."""
    salt = secrets.token_bytes(_SALT_BYTES)
    found = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    return "$".join((_METHOD, str(_ITERATIONS), *(base64.b64encode(part).decode() for part in (salt, found))))


def read_users(path: str) -> dict[str, str]:
    """Hashes by name. Raises `InvalidArgumentError` where others may read the file, or a line means nothing."""
    file = Path(path).expanduser()
    try:
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise _wrong(path, "others may read or write it; run chmod 600")
        lines = file.read_text("utf-8").splitlines()
    except OSError as error:
        raise _wrong(path, error.strerror or str(error)) from None
    users: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, kept = line.strip().partition(":")
        if not name or not colon or not _is_hash(kept):
            raise _wrong(path, f"line {number} is not name:hash; make it by --add-user")
        if name in users:
            raise _wrong(path, f"{name} has two lines")
        users[name] = kept
    if not users:
        raise _wrong(path, "it names nobody; add somebody by --add-user")
    return users


def add_user(path: str, name: str, password: str) -> None:
    """The file, which need not be there yet, has the name with the password, and only its owner may read it."""
    if not name or ":" in name or name.startswith("#") or name != name.strip() or not name.isprintable():
        problem = "a name has no colon, no # in front and no blanks around it"
        raise InvalidArgumentError(argument="--add-user", value=name, problem=problem)
    if not password:
        raise InvalidArgumentError(argument="--add-user", value=name, problem="the password is empty")
    file = Path(path).expanduser()
    lines = [] if not file.exists() else file.read_text("utf-8").splitlines()
    lines = [line for line in lines if line.strip().partition(":")[0] != name] + [f"{name}:{hashed(password)}"]
    # Nobody else can read it at any time, and a driver that starts now finds the one or the other.
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        temporary.replace(file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _wrong(path, error.strerror or str(error)) from None


_NEW_THREADS = {
    "hive.server2.thrift.min.worker.threads": "0",
    "hive.server2.thrift.worker.keepalive.time": "0s",
}
"""A thread for each connection. One that has served a session keeps the class loader of that session, by which the
login of the next client would look for our class."""


def ask_for_logins(spark: SparkSession, users: Mapping[str, str]) -> dict[str, str]:
    """Have Hive's protocol take `users` alone. The settings of Hive that it needs."""
    login: Any = server_classes(spark).Login
    jvm: Any = spark._jvm
    known = jvm.java.util.HashMap()
    for name, kept in users.items():
        known.put(name, kept)
    login.setUsers(known)
    # Hive makes new settings for each login, from hive-site.xml and the properties of the JVM.
    jvm.java.lang.System.setProperty(_CLASS_SETTING, LOGIN_CLASS)
    return {"hive.server2.authentication": "CUSTOM", _CLASS_SETTING: LOGIN_CLASS, **_NEW_THREADS}


def limit_logins(spark: SparkSession, server: Any) -> None:
    """Bound what clients of Spark's `server` for JDBC may take before they have logged in.

    Without, some dozens of connections that announce large messages take all memory, and 500 that wait all threads. A
    Spark that lacks jars that the classes need serves without these bounds.
    """
    try:
        limits: Any = server_classes(spark).LoginLimits
    except ExtensionNotLoadedError as error:
        logger.warning("What clients of JDBC may take before a login has no bounds: %s", error)
        return
    limits.begin(server)


def watch_sessions(spark: SparkSession, server: Any, *, has_logins: bool) -> None:
    """Look at what clients of JDBC bring with a connection to Spark's `server`, and remember who logged in."""
    sessions: Any = server_classes(spark).JdbcSessions
    sessions.begin(server, spark._jsparkSession, has_logins)
    DeltaSession.login_of = lambda session: sessions.userOf(session._jsparkSession)


def forget_sessions() -> None:
    """As if nobody had logged in."""
    DeltaSession.login_of = None


def _is_hash(text: str) -> bool:
    parts = text.split("$")
    if len(parts) != 4 or parts[0] != _METHOD or not parts[1].isdecimal():
        return False
    try:
        salt, found = (base64.b64decode(part, validate=True) for part in parts[2:])
    except ValueError:
        return False
    is_long = _HASH_BYTES_MIN <= len(found) <= _HASH_BYTES_MAX
    return bool(salt) and is_long and _ITERATIONS_MIN <= int(parts[1]) <= _ITERATIONS_MAX


def _wrong(path: str, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(argument="--users", value=path, problem=problem)
