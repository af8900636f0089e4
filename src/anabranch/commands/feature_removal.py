"""What it takes to drop a feature from a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from anabranch.commands.table_access import TableHandle
from anabranch.protocol.actions import Action
from anabranch.snapshot.snapshot import Snapshot

UsedInVersion = Callable[[Snapshot], str | None]
"""What of a version uses the feature, in words; None for nothing."""
UsedInAction = Callable[[Action], str | None]
"""What of an action uses the feature, in words; None for nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRemoval:
    """How one feature leaves a table."""

    used_in_version: UsedInVersion
    used_in_action: UsedInAction
    """Asked of every commit that lands while the feature is being dropped."""
    clean_up: Callable[[TableHandle], None] = lambda _: None
    """Brings the newest version, by commits of its own, to where nothing uses the feature and nobody begins to.

    Stopped anywhere, it leaves a valid table; begun again, it goes on. Raises `FeatureDropError` where the user has to
    do something first, and the exceptions of `errors.conflicts`, after which it may be begun again.
    """
    used_in_history: UsedInAction | None = None
    """What an engine that does not know the feature would misread in old versions; None for nothing at all. Then
    history is protected, or truncated, before the feature goes."""
    properties: tuple[str, ...] = ()
    """Properties that go in the commit that drops it."""
    domain: str | None = None
    """The metadata domain that goes in that commit."""
