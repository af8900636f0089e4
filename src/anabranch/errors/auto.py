"""What can go wrong when programs for delta-spark are run as they are."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class SitePackagesNotWritableError(DeltaError):
    """The folder that says what a Python does at its start cannot be changed."""

    condition: ClassVar[str] = "ANABRANCH_SITE_PACKAGES_NOT_WRITABLE"
    sqlstate: ClassVar[str] = "42501"
    folder: str
    problem: str

    def explain(self) -> str:
        return (
            f"{self.folder} cannot be changed ({self.problem}), so nothing was. Run this as a user who may change it, "
            "or in a virtual environment of yours; or start single programs by `anabranch run`, which needs no change."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ForeignSiteFileError(DeltaError):
    """A file has the name of ours and is not ours."""

    condition: ClassVar[str] = "ANABRANCH_FOREIGN_SITE_FILE"
    sqlstate: ClassVar[str] = "42710"
    path: str

    def explain(self) -> str:
        return f"{self.path} was not made by anabranch, so it stays as it is. Move it away, then run this again."
