"""No file with a row that satisfies the condition is ever left out. Covers races 32, 33, 34 and 35."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from anabranch.data_skipping.file_skipping import added_files_to_read, files_to_read, files_wholly_true
from anabranch.log.file_columns import table_of_adds
from anabranch.predicates.expressions import Predicate, is_exact, normalise
from anabranch.protocol.actions import AddFile
from snapshot.random_files import PARTITION_COLUMNS, SCHEMA, Row, files, holds, predicates, without_unknown

HARD = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@HARD
@given(st.lists(files(), min_size=1, max_size=3), predicates)
def test_a_file_with_a_matching_row_is_kept(written: list[tuple[AddFile, list[Row]]], predicate: Predicate) -> None:
    kept = added_files_to_read(
        predicate, [add for add, _ in written], physical_schema=SCHEMA, partition_columns=PARTITION_COLUMNS
    )
    for keep, (_, rows) in zip(kept, written, strict=True):
        matching = any(
            holds(without_unknown(predicate, value), row) is True for row in rows for value in (True, False, None)
        )
        event(f"matching={matching} kept={bool(keep)} exact={is_exact(predicate)}")
        assert keep or not matching


@HARD
@given(files(), predicates, st.sampled_from([True, False, None]))
def test_normal_predicates_mean_the_same(
    written: tuple[AddFile, list[Row]], predicate: Predicate, unknown: bool | None
) -> None:
    # An `Unknown` below a `Not` is another condition afterwards, so all are given a value first.
    plain = without_unknown(predicate, unknown)
    for row in written[1]:
        assert holds(normalise(plain), row) is holds(plain, row)


@HARD
@given(st.lists(files(), min_size=1, max_size=3), predicates)
def test_wholly_true_files_have_only_matching_rows(
    written: list[tuple[AddFile, list[Row]]], predicate: Predicate
) -> None:
    table = table_of_adds([add for add, _ in written])
    whole = files_wholly_true(table, predicate, physical_schema=SCHEMA, partition_columns=PARTITION_COLUMNS)
    for sure, (_, rows) in zip(whole, written, strict=True):
        event(f"sure={bool(sure)}")
        if sure:
            assert all(
                holds(without_unknown(predicate, value), row) is True for row in rows for value in (True, False, None)
            )


@settings(HARD, max_examples=100)
@given(st.lists(files(), min_size=2, max_size=4), predicates)
def test_chunks_and_encodings_of_columns_change_nothing(
    written: list[tuple[AddFile, list[Row]]], predicate: Predicate
) -> None:
    table = table_of_adds([add for add, _ in written])
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    chunked = chunked.set_column(
        chunked.schema.get_field_index("stats"), "stats", pc.cast(chunked["stats"], pa.large_string())
    )
    plain, other = (
        files_to_read(files, predicate, physical_schema=SCHEMA, partition_columns=PARTITION_COLUMNS)
        for files in (table, chunked)
    )
    assert plain.tolist() == other.tolist()
