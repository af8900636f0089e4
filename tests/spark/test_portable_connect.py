"""The tests of engines, of the data source and of the API once more, over Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from engines import OVER_CONNECT

HERE = Path(__file__).parent


PLAIN = [
    "test_portable_data_source.py",
    *(
        f"test_engine_suite.py::{test}"
        for test in (
            "test_all_types_come_back_as_they_were_written",
            "test_partition_values_of_every_type",
            "test_mapped_files_have_physical_names_and_ids",
            "test_hidden_rows_are_left_out",
            "test_odd_paths_with_partitions_and_mapping",
            "test_a_failing_write_tells_of_nothing",
            "test_statistics",
            "test_versions_read",
        )
    ),
]
ENABLED = [
    "../session/test_reading.py",
    *(
        f"../session/test_writing.py::{test}"
        for test in (
            "test_append_and_overwrite",
            "test_merge_schema_adds_columns",
            "test_replace_where_on_any_column_keeps_other_rows",
            "test_dynamic_partition_overwrite",
            "test_the_same_application_version_is_written_once",
            "test_not_null_columns_refuse_null",
            "test_save_as_table_insert_into_and_sql",
            "test_column_mapping",
        )
    ),
    "../session/test_sql_rows.py",
    "../session/test_sql_tables.py::test_a_managed_table_goes_with_its_files",
    "../session/test_sql_views.py::test_temporary_view",
    "../session/test_sql_views.py::test_view_in_the_catalog",
    "../session/test_write_to.py::test_rows_of_a_condition_are_overwritten",
    "../tables/test_change_feed.py::test_every_change_of_every_row",
    "../tables/test_delta_table.py",
    "../tables/test_drop_feature.py::test_columns_lose_their_mapping",
    "../tables/test_update.py::test_what_is_no_value_of_one_row_is_refused",
    "../streaming/test_sink.py::test_a_batch_that_landed_is_not_written_again",
    "../streaming/test_stream_sources.py::test_changes_as_a_stream",
    "../streaming/test_stream_sources.py::test_killed_in_any_batch_each_row_comes_once",
    "../streaming/test_stream_sources.py::test_refused_by_name",
]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("connect_port")
@pytest.mark.skipif(OVER_CONNECT in os.environ, reason="this is that run")
@pytest.mark.parametrize("files", [PLAIN, ENABLED], ids=["a plain session", "an enabled session"])
def test_the_same_over_connect(files: list[str]) -> None:
    """In a process of its own: PySpark has either classic or Connect sessions in one process."""
    command = [sys.executable, "-m", "pytest", "-q", "--maxfail=3", "--no-header", "-p", "no:cacheprovider"]
    command += [str(HERE / file) for file in files]
    paths = [str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, OVER_CONNECT: "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert run.returncode == 0, run.stdout[-8_000:]
