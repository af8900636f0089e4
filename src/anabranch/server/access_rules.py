"""Who may come in: servers listen on this machine alone, unless they ask whoever comes who they are."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.environment import ServerOpenToOthersError

TOKEN_SETTING = "spark.connect.authenticate.token"  # noqa: S105 - the name of a setting
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - the name of a variable
LOGIN_SETTING = "hive.server2.authentication"
"""How Hive's protocol asks who a client is. Its default, NONE, takes any name and any password."""
_ANYBODY = {"", "NONE", "NOSASL"}


def check_access(host: str, settings: Mapping[str, str], *, connect: bool, jdbc: bool, has_users: bool = False) -> None:
    """Raises `ServerOpenToOthersError` where one of the servers would let in whoever reaches `host`."""
    if connect:
        check_connect(host, settings, os.environ)
    if jdbc:
        check_jdbc(host, settings, has_users=has_users)


def check_connect(host: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raises `ServerOpenToOthersError` where Spark Connect would let in whoever reaches `host`."""
    if is_of_this_machine(host) or settings.get(TOKEN_SETTING) or environment.get(TOKEN_VARIABLE):
        return
    way_out = f"Set {TOKEN_SETTING}, or {TOKEN_VARIABLE} in the environment, to a token that clients must name"
    raise ServerOpenToOthersError(host=host, server="Spark Connect", way_out=way_out)


def check_jdbc(host: str, settings: Mapping[str, str], *, has_users: bool = False) -> None:
    """Raises `ServerOpenToOthersError` where JDBC would let in whoever reaches `host`."""
    login = settings.get(LOGIN_SETTING) or settings.get(f"spark.hadoop.{LOGIN_SETTING}") or ""
    if has_users and login:
        problem = f"{LOGIN_SETTING} is {login}, and clients can be asked in one way only"
        raise InvalidArgumentError(argument="--users", value="", problem=problem)
    if has_users or is_of_this_machine(host) or login.upper() not in _ANYBODY:
        return
    way_out = (
        f"Name those who may come in by --users, or set spark.hadoop.{LOGIN_SETTING} to LDAP, KERBEROS, PAM or CUSTOM, "
        "with the settings of Hive that it needs"
    )
    raise ServerOpenToOthersError(host=host, server="JDBC", way_out=way_out)


def is_of_this_machine(host: str) -> bool:
    """Whether only programs of this machine reach the address. Of names that is known of `localhost` alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
