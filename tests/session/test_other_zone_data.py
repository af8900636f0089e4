"""What clocks show is decided by the zone data of the JVM alone. Covers bug B60."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from new_processes import outside_this_session
from session.other_zone_data import copy_with_zones_exchanged, java_home
from session_kinds import in_this_process

pytestmark = [pytest.mark.spark, pytest.mark.long]

ROOT = Path(__file__).parents[2]
TESTS = "ahead_in_summer or rules_are_those or no_file_with_a_row or statements_find"


@in_this_process
def test_a_jvm_in_which_oslo_has_the_time_of_tokyo(tmp_path: Path) -> None:
    """Python's zone data has the usual rules, so skipping by it would leave files out."""
    java = copy_with_zones_exchanged(java_home(), tmp_path / "java", "Europe/Oslo", "Asia/Tokyo")
    of_run = {"JAVA_HOME": str(java), "ANABRANCH_TEST_OSLO_AHEAD_HOURS": "9"}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/session/test_time_zones.py", "-m", "not long", "-k", TESTS],
        cwd=ROOT,
        env=outside_this_session() | of_run,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "4 passed" in run.stdout
