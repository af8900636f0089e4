"""Logins by JDBC with a file of users, and over TLS: one server with both."""

from __future__ import annotations

import contextlib
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import InvalidArgumentError, ServerOpenToOthersError
from anabranch.server.access_rules import check_jdbc
from anabranch.server.logins import add_user, hashed, read_users
from serve.served import Served, beeline, served

PASSWORD = "pä$$:wörd"
STORE = "of-the-store"


def test_a_file_of_users(tmp_path: Path) -> None:
    file = tmp_path / "users"
    add_user(str(file), "ann", PASSWORD)
    add_user(str(file), "bob", "other")
    before = read_users(str(file))
    add_user(str(file), "ann", PASSWORD)
    after = read_users(str(file))
    assert list(after) == ["bob", "ann"]
    assert after["bob"] == before["bob"]
    # The salt hides that two users have the same password, and that a password was not changed.
    assert after["ann"] != before["ann"]
    assert PASSWORD not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "no users"),
        ("# only a comment\n", "no users"),
        ("ann:secret\n", "line 1"),
        ("ann:pbkdf2_sha256$1$AAAA$AAAA\n", "line 1"),
        ("ann\n", "line 1"),
        (f"ann:{hashed('a')}\nann:{hashed('b')}\n", "two lines"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "users"
    file.write_text(content)
    file.chmod(0o600)
    with pytest.raises(InvalidArgumentError, match=problem):
        read_users(str(file))


def test_files_that_others_read(tmp_path: Path) -> None:
    file = tmp_path / "users"
    add_user(str(file), "ann", PASSWORD)
    file.chmod(0o640)
    with pytest.raises(InvalidArgumentError, match="chmod 600"):
        read_users(str(file))
    with pytest.raises(InvalidArgumentError, match="No such file"):
        read_users(str(tmp_path / "absent"))


@pytest.mark.parametrize("name", ["", "a:b", " a", "#a", "a\n"])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="a name cannot"):
        add_user(str(tmp_path / "users"), name, PASSWORD)


def test_users_are_a_login() -> None:
    check_jdbc("0.0.0.0", {}, has_users=True)
    with pytest.raises(ServerOpenToOthersError, match="--users"):
        check_jdbc("0.0.0.0", {})
    with pytest.raises(InvalidArgumentError, match="only one kind of login"):
        check_jdbc("0.0.0.0", {"spark.hadoop.hive.server2.authentication": "LDAP"}, has_users=True)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """A server that other machines could reach, and the store of its certificate."""
    pytest.importorskip("pyhive")
    keytool = shutil.which("keytool")
    if keytool is None:
        pytest.skip("needs keytool, which comes with Java")
    folder = tmp_path_factory.mktemp("secured")
    store = folder / "store.p12"
    command = [keytool, "-genkeypair", "-keystore", str(store), "-storetype", "PKCS12", "-storepass", STORE]
    command += [
        "-keyalg",
        "RSA",
        "-alias",
        "server",
        "-dname",
        "CN=localhost",
        "-ext",
        "san=dns:localhost,ip:127.0.0.1",
    ]
    subprocess.run(command, check=True, capture_output=True)
    users = folder / "users"
    add = [sys.executable, "-m", "anabranch", "serve", "--users", str(users), "--add-user", "ann"]
    subprocess.run(add, input=f"{PASSWORD}\n", check=True, text=True)
    settings = {"use.SSL": "true", "keystore.path": str(store), "keystore.password": STORE}
    arguments = [part for key, value in settings.items() for part in ("-c", f"spark.hadoop.hive.server2.{key}={value}")]
    # Clients of other machines are allowed with a login by JDBC, and with a token by Spark Connect.
    arguments += ["--host", "0.0.0.0", "--users", str(users), "-c", "spark.connect.authenticate.token=secret"]
    with served(folder / "warehouse", *arguments) as server:
        yield server, store


def connected(server: Served, name: str, password: str, configuration: dict[str, str] | None = None) -> Any:
    """A client of Hive's protocol over TLS. PyHive has no option for it, but takes a transport."""
    import thrift_sasl
    from pyhive import hive
    from thrift.transport.TSSLSocket import TSSLSocket

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    socket = TSSLSocket("127.0.0.1", server.jdbc_port, ssl_context=context)
    client = lambda: hive.get_installed_sasl(host="127.0.0.1", sasl_auth="PLAIN", username=name, password=password)  # noqa: E731
    transport = thrift_sasl.TSaslClientTransport(client, "PLAIN", socket)
    return hive.connect(thrift_transport=transport, username=name, configuration=configuration)


@pytest.mark.spark
@pytest.mark.long
def test_names_and_passwords_over_tls(secured: tuple[Served, Path]) -> None:
    server, _ = secured
    with (
        contextlib.closing(connected(server, "ann", PASSWORD)) as connection,
        contextlib.closing(connection.cursor()) as cursor,
    ):
        cursor.execute("CREATE TABLE mine USING delta AS SELECT 1 AS id")
        cursor.execute("SELECT * FROM mine")
        assert cursor.fetchall() == [(1,)]
        # Nor may she use another user's name (bug B81).
        cursor.execute("SET spark.anabranch.user = bob")
        cursor.execute("DELETE FROM mine")
        cursor.execute("DESCRIBE HISTORY mine")
        assert {row[3] for row in cursor.fetchall()} == {"ann"}
    with pytest.raises(Exception, match="ANABRANCH_REFUSED_TO_CLIENTS"):
        connected(server, "ann", PASSWORD, {"set:system:user.home": "/"})
    for name, password in (("ann", "wrong"), ("ann", ""), ("bob", PASSWORD), ("", ""), ("ANN", PASSWORD)):
        with pytest.raises(Exception, match=r"[Ee]rror validating the login|Bad status|wrong|empty|blank"):
            connected(server, name, password)
    from pyhive import hive

    # A plain connection to a TLS port fails.
    with pytest.raises(Exception, match=r"TSocket|read|Bad|SASL|TLS"):
        hive.connect("127.0.0.1", server.jdbc_port, username="ann", password=PASSWORD, auth="CUSTOM")


@pytest.mark.spark
@pytest.mark.long
def test_hives_own_driver_over_tls(secured: tuple[Served, Path]) -> None:
    server, store = secured
    url = f"jdbc:hive2://localhost:{server.jdbc_port}/;ssl=true;sslTrustStore={store};trustStorePassword={STORE}"
    outcome = beeline(url, "-n", "ann", "-p", PASSWORD, "-e", "SELECT concat('hel', 'lo')")
    assert "hello" in outcome.stdout.splitlines(), outcome.stderr
    # What a session leaves behind on its thread must not keep the next clients from logging in.
    for _ in range(6):
        connected(server, "ann", PASSWORD).close()


@pytest.mark.spark
@pytest.mark.long
def test_the_check_speaks_tls(secured: tuple[Served, Path]) -> None:
    server, _ = secured
    ports = ["--connect", str(server.connect_port), "--jdbc", str(server.jdbc_port)]
    assert subprocess.run([sys.executable, "-m", "anabranch", "serve", "--check", *ports], check=False).returncode == 0
