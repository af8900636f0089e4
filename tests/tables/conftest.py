"""What tests of statements share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["vectors", "copy on write"])
def vectors(request: pytest.FixtureRequest) -> str:
    """The value of `delta.enableDeletionVectors`: rows are hidden, or files rewritten."""
    return "true" if request.param == "vectors" else "false"
