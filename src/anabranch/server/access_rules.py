"""Access control of servers: without authentication they may only listen on this machine."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.environment import ServerOpenToOthersError

TOKEN_SETTING = "spark.connect.authenticate.token"  # noqa: S105 - the name of a setting
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
LOGIN_SETTING = "hive.server2.authentication"
"""How Hive's protocol authenticates clients. Its default, NONE, accepts any name and any password."""
_WITHOUT_LOGIN = {"", "NONE", "NOSASL"}


def check_access(host: str, settings: Mapping[str, str], *, connect: bool, jdbc: bool, has_users: bool = False) -> None:
    """Raise `ServerOpenToOthersError` if a server would serve other machines' clients without authentication."""
    if connect:
        check_connect(host, settings, os.environ)
    if jdbc:
        check_jdbc(host, settings, has_users=has_users)


def check_connect(host: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise `ServerOpenToOthersError` if Spark Connect would serve other machines' clients without a token."""
    if is_of_this_machine(host) or settings.get(TOKEN_SETTING) or environment.get(TOKEN_VARIABLE):
        return
    way_out = f"Set {TOKEN_SETTING}, or {TOKEN_VARIABLE} in the environment, to a token that clients must send"
    raise ServerOpenToOthersError(host=host, server="Spark Connect", way_out=way_out)


def check_jdbc(host: str, settings: Mapping[str, str], *, has_users: bool = False) -> None:
    """Raise `ServerOpenToOthersError` if JDBC would serve other machines' clients without a login.

    Raises `InvalidArgumentError` if both users and another login are configured.
    """
    login = settings.get(LOGIN_SETTING) or settings.get(f"spark.hadoop.{LOGIN_SETTING}") or ""
    if has_users and login:
        problem = f"{LOGIN_SETTING} is {login}, and there can be only one kind of login"
        raise InvalidArgumentError(argument="--users", value="", problem=problem)
    if has_users or is_of_this_machine(host) or login.upper() not in _WITHOUT_LOGIN:
        return
    way_out = (
        f"Name the users by --users, or set spark.hadoop.{LOGIN_SETTING} to LDAP, KERBEROS, PAM or CUSTOM, "
        "with the settings of Hive that it needs"
    )
    raise ServerOpenToOthersError(host=host, server="JDBC", way_out=way_out)


def is_of_this_machine(host: str) -> bool:
    """Whether only programs of this machine reach the address. Among names this is certain only for `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
