"""What follows a landed commit: checksum, checkpoint, clean-up. It may fail; the commit stands."""

from __future__ import annotations

import dataclasses
import logging
import typing
from collections.abc import Sequence

from anabranch.transaction.committed_version import CommittedVersion

LOGGER = logging.getLogger("anabranch.commit")


class AfterCommitStep(typing.Protocol):
    """One piece of upkeep."""

    @property
    def name(self) -> str:
        """What it is called in a log message."""

    def run(self, landed: CommittedVersion) -> None:
        """Do it, or nothing where it is not due."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AfterCommit:
    """The upkeep of one table."""

    steps: Sequence[AfterCommitStep] = ()

    def run(self, landed: CommittedVersion) -> None:
        """All steps, whatever becomes of the ones before. Raises nothing but an interrupt by the user.

        The commit is in the log: who reported a failure now would make the caller write its rows again.
        """
        for step in self.steps:
            try:
                step.run(landed)
            except Exception:
                LOGGER.warning("version %d landed, but its %s failed", landed.version, step.name, exc_info=True)
