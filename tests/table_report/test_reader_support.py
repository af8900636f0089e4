"""What the report says about other programs is what the tests with these programs show."""

from __future__ import annotations

import pytest

from anabranch.protocol.actions import Protocol
from anabranch.table_report.reader_support import OTHERS, TESTED, Program, program_reads, reader_features
from interop.feature_tables import READS_REFUSED, TABLES

FOR_READERS = sorted(TESTED)


@pytest.mark.parametrize("program", OTHERS, ids=lambda program: program.name)
@pytest.mark.parametrize("name", sorted(TABLES))
def test_answers_agree_with_the_tests_of_programs(program: Program, name: str) -> None:
    features = frozenset(TABLES[name].features)
    needed = features & TESTED
    # As anabranch makes these tables: column mapping alone needs reader version 2 only.
    reader_version = 2 if needed == {"columnMapping"} else 3 if needed else 1
    protocol = Protocol(
        min_reader_version=reader_version,
        min_writer_version=7,
        reader_features=sorted(needed) if reader_version == 3 else None,
        writer_features=sorted(features),
    )
    assert reader_features(protocol) == needed
    answer = program_reads(program, protocol)
    assert answer.reads is ((program.name, name) not in READS_REFUSED), answer


def test_every_feature_of_readers_is_tested_with_programs() -> None:
    assert {feature for table in TABLES.values() for feature in table.features} >= TESTED


def test_an_untested_feature_is_unknown() -> None:
    protocol = Protocol(
        min_reader_version=3, min_writer_version=7, reader_features=["futureFeature"], writer_features=["futureFeature"]
    )
    answers = [program_reads(program, protocol) for program in OTHERS]
    assert {answer.reads for answer in answers} == {None}
    assert "futureFeature" in answers[0].reason
