"""Settings of the session by which statements write: casts, widening, and the application's own number of a write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from anabranch.errors.arguments import IdempotentWriteOptionsError
from anabranch.protocol.value_text import LONG_MAX
from anabranch.schema.casts import Casting
from anabranch.schema.type_widening import Widening
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.delta_session import DeltaSession

CASE_SENSITIVE_SETTING = "spark.sql.caseSensitive"


class Settings(Protocol):
    """The session's settings."""

    def setting(self, key: str, default: str | None = None) -> str | None:
        """The value of `key`, or `default`."""


def store_assignment(session: DeltaSession) -> Casting:
    """How the session lets values be cast that have another type than their column."""
    return Casting.parse(session.setting("spark.sql.storeAssignmentPolicy", "ANSI") or "ANSI")


def automatic_widening(session: DeltaSession, snapshot: Snapshot) -> Widening:
    """How far a write that may change the schema widens the types of columns."""
    if not snapshot.properties.type_widening_enabled:
        return Widening.NONE
    setting = session.setting("spark.databricks.delta.typeWidening.allowAutomaticWidening", "same_family_type")
    try:
        return Widening((setting or "").lower())
    except ValueError:
        return Widening.SAME_FAMILY


def application_of(values: Mapping[str, str], settings: Settings) -> tuple[str, int] | None:
    """The id of the application and the number of its write; options override the session's settings.

    Raises `InvalidOptionError`.
    """
    app_id, version = values.get("txnappid"), values.get("txnversion")
    if app_id is None and version is None:
        app_id = settings.setting("spark.databricks.delta.write.txnAppId")
        version = settings.setting("spark.databricks.delta.write.txnVersion")
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        missing = "txnAppId" if app_id is None else "txnVersion"
        problem = f"txnAppId and txnVersion make a write idempotent only together; {missing} is missing"
        raise IdempotentWriteOptionsError(option="txnAppId", value=str(app_id), problem=problem)
    try:
        number = int(version)
    except ValueError:
        number = -1
    if not 0 <= number <= LONG_MAX or not app_id:
        problem = f"it must be a whole number, from 0 to {LONG_MAX}"
        raise IdempotentWriteOptionsError(option="txnVersion", value=version, problem=problem)
    return app_id, number
