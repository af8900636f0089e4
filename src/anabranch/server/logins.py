"""Users of JDBC: a file of names and hashes of passwords, and the login that checks them."""

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
from anabranch.spark.session.delta_session import SESSION_RULES

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
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    return "$".join((_METHOD, str(_ITERATIONS), *(base64.b64encode(part).decode() for part in (salt, digest))))


def read_users(path: str) -> dict[str, str]:
    """The hash of each name in the file of users.

    Raises `InvalidArgumentError` if other users of the machine may read the file, or if a line is not `name:hash`.
    """
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
        name, colon, password_hash = line.strip().partition(":")
        if not name or not colon or not _is_hash(password_hash):
            raise _wrong(path, f"line {number} is not name:hash; make it by --add-user")
        if name in users:
            raise _wrong(path, f"{name} has two lines")
        users[name] = password_hash
    if not users:
        raise _wrong(path, "it has no users; add one by --add-user")
    return users


def add_user(path: str, name: str, password: str) -> None:
    """Add the name to the file, or change its password. The file is created if needed, readable only by its owner."""
    if not name or ":" in name or name.startswith("#") or name != name.strip() or not name.isprintable():
        problem = "a name cannot contain a colon, begin with #, or have blanks around it"
        raise InvalidArgumentError(argument="--add-user", value=name, problem=problem)
    if not password:
        raise InvalidArgumentError(argument="--add-user", value=name, problem="the password is empty")
    file = Path(path).expanduser()
    lines = [] if not file.exists() else file.read_text("utf-8").splitlines()
    lines = [line for line in lines if line.strip().partition(":")[0] != name] + [f"{name}:{hashed(password)}"]
    # Replaced in one step, so that a driver that starts now reads a complete file, and others can never read it.
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
"""A new thread for each connection. A thread that has served a session keeps that session's class loader, which does
not find `Login` at the next client's login."""


def require_logins(spark: SparkSession, users: Mapping[str, str]) -> dict[str, str]:
    """Let only `users` log in by Hive's protocol. Returns the settings of Hive that this needs."""
    login: Any = server_classes(spark).Login
    jvm: Any = spark._jvm
    hashes = jvm.java.util.HashMap()
    for name, password_hash in users.items():
        hashes.put(name, password_hash)
    login.setUsers(hashes)
    # Hive reads its settings for each login from hive-site.xml and the JVM's properties, not from the server's.
    jvm.java.lang.System.setProperty(_CLASS_SETTING, LOGIN_CLASS)
    return {"hive.server2.authentication": "CUSTOM", _CLASS_SETTING: LOGIN_CLASS, **_NEW_THREADS}


def limit_logins(spark: SparkSession, server: Any) -> None:
    """Limit the connections and messages of clients of Spark's JDBC `server` before they have logged in.

    Otherwise some dozens of connections that announce large messages use up the memory, and 500 idle ones the threads.
    A Spark without the jars that the classes need serves without these limits.
    """
    try:
        limits: Any = server_classes(spark).LoginLimits
    except ExtensionNotLoadedError as error:
        logger.warning("Clients of JDBC have no limits before their login: %s", error)
        return
    limits.begin(server)


def watch_sessions(spark: SparkSession, server: Any, *, has_logins: bool) -> None:
    """Check the settings that clients send with a connection to Spark's JDBC `server`, and record who logged in."""
    sessions: Any = server_classes(spark).JdbcSessions
    sessions.begin(server, spark._jsparkSession, has_logins)
    SESSION_RULES.login_of = lambda session: sessions.userOf(session._jsparkSession)


def forget_sessions() -> None:
    """Forget who logged in."""
    SESSION_RULES.login_of = None


def _is_hash(text: str) -> bool:
    parts = text.split("$")
    if len(parts) != 4 or parts[0] != _METHOD or not parts[1].isdecimal():
        return False
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in parts[2:])
    except ValueError:
        return False
    has_length = _HASH_BYTES_MIN <= len(digest) <= _HASH_BYTES_MAX
    return bool(salt) and has_length and _ITERATIONS_MIN <= int(parts[1]) <= _ITERATIONS_MAX


def _wrong(path: str, problem: str) -> InvalidArgumentError:
    return InvalidArgumentError(argument="--users", value=path, problem=problem)
