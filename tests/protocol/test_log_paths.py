"""Names of log files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.protocol.log_paths import (
    LAST_CHECKPOINT_PATH,
    VERSION_MAX,
    LogFileKind,
    LogPath,
    checkpoint_path,
    checksum_path,
    commit_path,
    compacted_path,
    multi_part_checkpoint_path,
    parse_log_path,
    sidecar_path,
    v2_checkpoint_path,
    version_prefix,
)

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def test_names_are_those_of_the_protocol() -> None:
    assert commit_path(0) == "_delta_log/00000000000000000000.json"
    assert checksum_path(7) == "_delta_log/00000000000000000007.crc"
    assert checkpoint_path(10) == "_delta_log/00000000000000000010.checkpoint.parquet"
    assert (
        multi_part_checkpoint_path(10, 2, 3)
        == "_delta_log/00000000000000000010.checkpoint.0000000002.0000000003.parquet"
    )
    assert v2_checkpoint_path(10, UUID, "json") == f"_delta_log/00000000000000000010.checkpoint.{UUID}.json"
    assert compacted_path(4, 6) == "_delta_log/00000000000000000004.00000000000000000006.compacted.json"
    assert sidecar_path("a.parquet") == "_delta_log/_sidecars/a.parquet"
    assert LAST_CHECKPOINT_PATH == "_delta_log/_last_checkpoint"


VERSIONS = st.integers(0, VERSION_MAX)
PATHS = st.one_of(
    VERSIONS.map(lambda version: LogPath(kind=LogFileKind.COMMIT, version=version)),
    VERSIONS.map(lambda version: LogPath(kind=LogFileKind.CHECKSUM, version=version)),
    VERSIONS.map(lambda version: LogPath(kind=LogFileKind.CLASSIC_CHECKPOINT, version=version)),
    st.tuples(VERSIONS, st.uuids(), st.sampled_from(["json", "parquet"])).map(
        lambda t: LogPath(kind=LogFileKind.V2_CHECKPOINT, version=t[0], unique_id=str(t[1]), format=t[2])  # type: ignore[arg-type]
    ),
    st.tuples(VERSIONS, st.integers(1, 9_999_999_999), st.integers(1, 9_999_999_999)).map(
        lambda t: LogPath(kind=LogFileKind.MULTI_PART_CHECKPOINT, version=t[0], part=min(t[1:]), parts=max(t[1:]))
    ),
    st.tuples(VERSIONS, VERSIONS)
    .filter(lambda t: t[0] != t[1])
    .map(lambda t: LogPath(kind=LogFileKind.COMPACTED, version=min(t), end_version=max(t))),
)


@given(PATHS)
def test_a_name_says_all_that_it_was_made_of(path: LogPath) -> None:
    assert parse_log_path(path.name) == path
    assert parse_log_path(path.path) == path
    assert path.name.startswith(version_prefix(path.version) + ".")
    assert path.name > version_prefix(path.version)


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "_last_checkpoint.tmp",
        "0.json",
        "1.json",
        "000000000000000000001.json",
        "0000000000000000000a.json",
        "\u0660" * 20 + ".json",  # digits, but not ours
        "00000000000000000000.json.tmp",
        ".00000000000000000000.json.crc",
        "00000000000000000000.JSON",
        "00000000000000000000.json\n",
        "-0000000000000000001.json",
        "99999999999999999999.json",
        "09223372036854775808.json",
        "00000000000000000000.checkpoint",
        "00000000000000000000.checkpoint.json",
        "00000000000000000000.checkpoint.tmp.parquet",
        "00000000000000000000.checkpoint.0000000000.0000000001.parquet",
        "00000000000000000000.checkpoint.0000000003.0000000002.parquet",
        "00000000000000000000.checkpoint.1.2.parquet",
        f"00000000000000000000.{UUID}.json",
        f"00000000000000000000.checkpoint.{UUID}.crc",
        "00000000000000000005.00000000000000000005.compacted.json",
        "00000000000000000006.00000000000000000005.compacted.json",
        "00000000000000000006.09223372036854775808.compacted.json",
        "_sidecars/a.parquet",
        "_delta_log/_delta_log/00000000000000000000.json",
        "other/00000000000000000000.json",
        "",
    ],
)
def test_other_names_are_no_log_files(name: str) -> None:
    assert parse_log_path(name) is None


def test_kinds_of_checkpoint() -> None:
    checkpoints = {kind for kind in LogFileKind if kind.is_checkpoint}
    assert checkpoints == {
        LogFileKind.CLASSIC_CHECKPOINT,
        LogFileKind.MULTI_PART_CHECKPOINT,
        LogFileKind.V2_CHECKPOINT,
    }
