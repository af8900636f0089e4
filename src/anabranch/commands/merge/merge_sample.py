"""Whether most files hold rows that a MERGE changes, by a look at some of them.

To read a table once is best where most files hold such rows. Where few do, the columns of the conditions are read
first, and all columns of those few files. A filter of the source's keys tells which these are without a join.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.dml.file_sample import are_enough, sample_of
from anabranch.commands.merge.merge_join import APPLIED
from anabranch.commands.merge.merge_rows import MergeRun, chosen_of
from anabranch.log.file_columns import FileMask
from anabranch.spark.engine import FILE_ID_COLUMN
from anabranch.spark.write.row_checks import typed_violations

COLUMNS_RATIO_MIN = 3
"""The table must have so many times as many columns as the conditions, so that to read these first costs little."""


def with_sample(run: MergeRun) -> MergeRun:
    """A run that may read twice, which knows whether changed rows are in few files, if that is worth a job."""
    if not _is_worth_a_look(run):
        return run
    files = sample_of(run.candidates)
    few = 2 * int(np.count_nonzero(_changed_files(run, files))) < int(np.count_nonzero(files))
    if few and run.facts.has_key_filter:
        # Other files have no such row at all. The rows of these are joined as if there were no others.
        return dataclasses.replace(run, files=_changed_files(run, run.candidates))
    return dataclasses.replace(run, changes_few_files=few)


def _is_worth_a_look(run: MergeRun) -> bool:
    columns = run.plan.columns_of_conditions
    if columns is None or COLUMNS_RATIO_MIN * len(columns) > len(run.snapshot.schema.fields):
        return False
    return are_enough(run.candidates)


def _changed_files(run: MergeRun, files: FileMask) -> FileMask:
    """Those of the files with rows that the MERGE changes; with a filter of the keys, that may match."""
    rows = run.that_may_match(run.target.read(files).frame)
    if not run.facts.has_key_filter:
        rows = run.join.decided(rows, {}, keeps=()).where(APPLIED)
    with typed_violations():
        (row,) = rows.agg(F.collect_set(FILE_ID_COLUMN)).collect()
    return chosen_of(files, row[0])
