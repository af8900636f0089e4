"""Which part of what takes long is played in a run: by the commit, so that the run of a commit can be repeated."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path


@functools.cache
def turn() -> int:
    """The number of commits up to the one that is checked out, or `ANABRANCH_TURN`. Without a history it is 0."""
    by_hand = os.environ.get("ANABRANCH_TURN")
    if by_hand is not None:
        return int(by_hand)
    command = ["git", "-C", str(Path(__file__).parent), "rev-list", "--count", "HEAD"]
    try:
        counted = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return 0
    return int(counted.stdout) if counted.returncode == 0 else 0
