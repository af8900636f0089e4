"""Programs that need a JVM of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


def run_program(name: str, folder: Path, *, timeout_s: int = 300) -> None:
    """Run one of `programs`, which works in `folder` and says "done" at its end."""
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / f"{name}.py"), str(folder)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["done"]), done.stdout + done.stderr
