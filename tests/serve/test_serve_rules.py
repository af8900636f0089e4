"""Checks before a server starts, and the health check. None of these tests needs Spark."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.errors import InvalidArgumentError, ServerNotHealthyError, ServerOpenToOthersError
from anabranch.server.access_rules import check_connect, check_jdbc, is_of_this_machine
from anabranch.server.addresses import address_of, free_port
from anabranch.server.driver_session import driver_settings
from anabranch.server.health_check import check_connect_answers, check_jdbc_answers


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_this_machine_alone(host: str) -> None:
    assert is_of_this_machine(host)
    check_connect(host, {}, {})
    check_jdbc(host, {})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.com", ""])
def test_others_reach_it(host: str) -> None:
    """Servers listen on other addresses only with authentication, and a name may resolve to another address later."""
    with pytest.raises(ServerOpenToOthersError, match="token"):
        check_connect(host, {}, {})
    with pytest.raises(ServerOpenToOthersError, match=r"hive\.server2\.authentication"):
        check_jdbc(host, {"spark.hadoop.hive.server2.authentication": "nosasl"})
    check_connect(host, {"spark.connect.authenticate.token": "secret"}, {})
    check_connect(host, {}, {"SPARK_CONNECT_AUTHENTICATE_TOKEN": "secret"})
    check_jdbc(host, {"spark.hadoop.hive.server2.authentication": "LDAP"})


def test_settings_of_the_driver(tmp_path: Path) -> None:
    defaults = settings(tmp_path, {})
    assert defaults["spark.sql.warehouse.dir"] == str(tmp_path / "tables")
    assert defaults["spark.sql.catalogImplementation"] == "hive"
    assert str(tmp_path / "tables/_metastore") in defaults["spark.hadoop.javax.jdo.option.ConnectionURL"]
    assert defaults["spark.driver.bindAddress"] == "127.0.0.1"


def test_settings_of_the_user_go_before_ours(tmp_path: Path) -> None:
    metastore = {"spark.hadoop.hive.metastore.uris": "thrift://metastore:9083"}
    assert "spark.hadoop.javax.jdo.option.ConnectionURL" not in settings(tmp_path, metastore)
    assert settings(tmp_path, {"spark.ui.enabled": "true"})["spark.ui.enabled"] == "true"


def test_an_administrators_metastore_stays(tmp_path: Path) -> None:
    (tmp_path / "hive-site.xml").write_text("<configuration/>")
    with_hive_site = settings(tmp_path, {}, SPARK_CONF_DIR=str(tmp_path))
    assert "spark.hadoop.javax.jdo.option.ConnectionURL" not in with_hive_site


def test_a_driver_of_spark_submit_keeps_its_master(tmp_path: Path) -> None:
    assert "spark.master" not in settings(tmp_path, {}, PYSPARK_GATEWAY_PORT="1")


def test_a_warehouse_elsewhere_needs_a_metastore() -> None:
    with pytest.raises(InvalidArgumentError, match=r"hive\.metastore\.uris"):
        driver_settings(warehouse="s3a://b/w", master="local[*]", host="127.0.0.1", user_settings={}, environment={})


def settings(folder: Path, user_settings: dict[str, str], **environment: str) -> dict[str, str]:
    return driver_settings(
        warehouse=str(folder / "tables"),
        master="local[*]",
        host="127.0.0.1",
        user_settings=user_settings,
        environment=environment,
    )


@contextmanager
def answering(reply: bytes) -> Iterator[int]:
    """A port that answers every connection with `reply`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            # The second connection is by TLS.
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(1024)
                        connection.sendall(reply)

        threading.Thread(target=answer, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_health() -> None:
    with answering(b"\0\0\0\4\0\0\0\0\0") as port:
        check_connect_answers("127.0.0.1", port)
    with answering(b"\5\0\0\0\0") as port:
        check_jdbc_answers("127.0.0.1", port)


@pytest.mark.parametrize(("reply", "problem"), [(b"", "closed"), (b"HTTP/1.1 400 Bad Request\r\n", "does not speak")])
def test_something_else_answers(reply: bytes, problem: str) -> None:
    for check in (check_connect_answers, check_jdbc_answers):
        with answering(reply) as port, pytest.raises(ServerNotHealthyError, match=problem):
            check("127.0.0.1", port)


def test_no_server_answers() -> None:
    port = str(free_port("127.0.0.1"))
    outcome = CliRunner().invoke(app, ["serve", "--check", "--jdbc", port, "--json"])
    assert outcome.exit_code == 1
    assert "ANABRANCH_SERVER_NOT_HEALTHY" in outcome.stdout


def test_the_command_refuses_before_it_starts_spark() -> None:
    outcome = CliRunner().invoke(app, ["serve", "--host", "0.0.0.0", "--json"])
    assert outcome.exit_code == 1
    assert "ANABRANCH_SERVER_OPEN_TO_OTHERS" in outcome.stdout


def test_addresses() -> None:
    assert address_of("127.0.0.1", 1) == "127.0.0.1:1"
    assert address_of("::1", 1) == "[::1]:1"
