"""What kind of session a run gives its tests."""

from __future__ import annotations

import os

import pytest

CONNECT = os.environ.get("ANABRANCH_TEST_CONNECT") or None
"""Set for a run over Spark Connect: `serve` for a client of `anabranch serve`, `own` for a server in this process."""
if CONNECT not in {None, "serve", "own"}:
    raise pytest.UsageError(f"ANABRANCH_TEST_CONNECT is serve or own, not {CONNECT}")

in_this_process = pytest.mark.skipif(CONNECT == "serve", reason="takes a statement apart, which runs in the server")
classic = pytest.mark.skipif(CONNECT is not None, reason="looks into a classic session")
