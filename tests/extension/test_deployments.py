"""Other than one JVM with Spark's built-in catalog: executors in processes of their own, the catalog of Hive."""

from __future__ import annotations

from pathlib import Path

import pytest

from extension.own_processes import run_program

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_a_cluster_of_two_executors(tmp_path: Path) -> None:
    run_program("two_executors", tmp_path)


def test_tasks_that_run_twice_and_executors_that_die(tmp_path: Path) -> None:
    """Covers faults F8, F9, F10 and F12: each row is in the table once, from files of one attempt of each task.

    The same holds for change data files.
    """
    run_program("tasks_run_again", tmp_path, timeout_s=1500)


def test_the_catalog_of_hive(tmp_path: Path) -> None:
    run_program("catalog_of_hive", tmp_path)
