"""Every error anabranch raises, one root: `DeltaError`."""

from anabranch.errors.base import DeltaAnalysisError, DeltaError

__all__ = ["DeltaAnalysisError", "DeltaError"]
