"""`remote("local[2]")`: PySpark runs the server in the client's own process, and `enable` makes that server know Delta."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from new_processes import outside_this_session

pytest.importorskip("grpc")
pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = Path(__file__).parent / "own_server_program.py"


@pytest.mark.usefixtures("connect_port")
@pytest.mark.parametrize("program", ["statements", "frames", "streams", "errors", "disabled"])
def test_a_client_with_its_server(program: str, tmp_path: Path) -> None:
    """The program runs in a process of its own: PySpark has either classic or Connect sessions in one process."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), program, str(tmp_path)],
        env={**outside_this_session(), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["done"]), done.stdout + done.stderr
