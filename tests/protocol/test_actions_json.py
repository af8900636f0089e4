"""Lines of a commit, strict and otherwise."""

from __future__ import annotations

import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors.protocol import MalformedActionError
from anabranch.protocol import actions_json
from anabranch.protocol.actions import (
    PARQUET,
    Action,
    AddCDCFile,
    AddFile,
    CheckpointMetadata,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
)
from anabranch.protocol.actions_json import encode_action, encode_actions, parse_action, parse_actions

VECTOR = DeletionVectorDescriptor(
    storage_type="u", path_or_inline_dv="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size_in_bytes=40, cardinality=6
)
EVERY_FIELD: list[Action] = [
    CommitInfo(
        version=3,
        in_commit_timestamp=5,
        timestamp=6,
        user_id="1",
        user_name="m",
        operation="MERGE",
        operation_parameters={"predicate": '["x"]', "nested": {"a": [1, None, 2.5]}},
        job={"id": "1"},
        notebook={"notebookId": "2"},
        cluster_id="c",
        read_version=2,
        isolation_level="WriteSerializable",
        is_blind_append=False,
        operation_metrics={"numFiles": "1"},
        user_metadata="line\nbreak",
        tags={"a": "b"},
        engine_info="anabranch",
        txn_id="t",
    ),
    Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=["deletionVectors"],
        writer_features=["deletionVectors", "rowTracking"],
    ),
    Metadata(
        id="i",
        name="n",
        description="d",
        format=PARQUET,
        schema_string="{}",
        partition_columns=["p"],
        configuration={"delta.appendOnly": "true"},
        created_time=7,
    ),
    AddFile(
        path="a%20b",
        partition_values={"p": None, "q": "x"},
        size=1,
        modification_time=2,
        data_change=True,
        stats='{"numRecords":1}',
        tags={"t": None},
        deletion_vector=VECTOR,
        base_row_id=0,
        default_row_commit_version=1,
        clustering_provider="liquid",
    ),
    RemoveFile(
        path="r",
        deletion_timestamp=9,
        data_change=False,
        extended_file_metadata=True,
        partition_values={},
        size=0,
        stats="{}",
        tags={},
        deletion_vector=VECTOR,
        base_row_id=1,
        default_row_commit_version=2,
    ),
    AddCDCFile(path="c", partition_values={}, size=1, data_change=False, tags={"a": "b"}),
    SetTransaction(app_id="app", version=1, last_updated=2),
    DomainMetadata(domain="d", configuration="{}", removed=False),
    Sidecar(path="s.parquet", size_in_bytes=1, modification_time=2, tags={}),
    CheckpointMetadata(version=4, tags={"sidecarNumActions": "1"}),
]


@pytest.mark.parametrize("action", EVERY_FIELD, ids=lambda action: type(action).__name__)
def test_every_field_of_every_action_comes_back(action: Action) -> None:
    line = encode_action(action)
    assert parse_action(line) == action
    assert b"\n" not in line
    # The case is complete: no field was left at its default.
    written = json.loads(line)[actions_json.KEY_BY_TYPE[type(action)]]
    assert len(written) == len(msgspec.structs.fields(action)) - 1


def test_names_are_those_of_the_protocol() -> None:
    written = json.loads(encode_action(EVERY_FIELD[3]))["add"]
    assert written["partitionValues"] == {"p": None, "q": "x"}
    assert written["deletionVector"]["pathOrInlineDv"] == VECTOR.path_or_inline_dv
    assert written["baseRowId"] == 0
    assert "modificationTime" in written


def test_absent_fields_are_absent_not_null() -> None:
    line = encode_action(SetTransaction(app_id="a", version=1))
    assert line == b'{"txn":{"appId":"a","version":1}}'


def test_a_commit_is_its_lines_in_order() -> None:
    data = encode_actions(EVERY_FIELD)
    assert data.endswith(b"\n")
    assert data.count(b"\n") == len(EVERY_FIELD)
    assert list(parse_actions(data)) == EVERY_FIELD
    assert list(parse_actions(data.rstrip(b"\n"))) == EVERY_FIELD
    assert list(parse_actions(data.replace(b"\n", b"\r\n\r\n"))) == EVERY_FIELD


def test_unknown_fields_survive_at_every_level() -> None:
    add = {
        "path": "a",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 2,
        "dataChange": True,
        "future": {"x": [1, {"y": None}]},
        "deletionVector": {
            "storageType": "u",
            "pathOrInlineDv": "x",
            "sizeInBytes": 1,
            "cardinality": 1,
            "hint": "far",
        },
    }
    metadata = {
        "id": "i",
        "format": {"provider": "parquet", "options": {}, "level": 2},
        "schemaString": "{}",
        "partitionColumns": [],
        "configuration": {},
        "owner": "me",
    }
    for raw in ({"add": add}, {"metaData": metadata}):
        line = json.dumps(raw).encode()
        action = parse_action(line)
        assert action is not None
        assert json.loads(encode_action(action)) == raw
        again = parse_action(encode_action(action))
        assert again == action


def test_a_field_named_like_our_own_storage_of_unknown_fields_cannot_forge_fields() -> None:
    raw = {
        "add": {
            "path": "honest",
            "partitionValues": {},
            "size": 1,
            "modificationTime": 2,
            "dataChange": True,
            "__unknown__": {"path": "forged", "tags": {"a": "b"}},
        }
    }
    action = parse_action(json.dumps(raw).encode())
    assert isinstance(action, AddFile)
    assert action.path == "honest"
    assert action.tags is None
    assert json.loads(encode_action(action)) == raw


def test_unknown_actions_are_passed_over() -> None:
    line = b'{"futureAction":{"a":1}}'
    assert parse_action(line) is None
    assert list(parse_actions(line + b"\n" + encode_action(EVERY_FIELD[6]))) == [EVERY_FIELD[6]]
    assert parse_action(b"{}") is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            {
                "metaData": {
                    "id": "i",
                    "format": {"provider": "parquet"},
                    "schemaString": "{}",
                    "partitionColumns": None,
                }
            },
            Metadata(id="i", format=PARQUET, schema_string="{}", partition_columns=[], configuration={}),
        ),
        (
            {"metaData": {"id": "i", "configuration": {"n": 5, "b": True, "z": None}, "partitionColumns": []}},
            Metadata(
                id="i",
                format=PARQUET,
                schema_string='{"type":"struct","fields":[]}',
                partition_columns=[],
                configuration={"n": "5", "b": "true", "z": None},
            ),
        ),
        (
            {"add": {"path": "a", "partitionValues": None, "size": "12", "modificationTime": 2, "dataChange": "true"}},
            AddFile(path="a", partition_values={}, size=12, modification_time=2, data_change=True),
        ),
        (
            {"add": {"path": "a", "partitionValues": {"p": 3}, "size": 1, "modificationTime": 2, "dataChange": True}},
            AddFile(path="a", partition_values={"p": "3"}, size=1, modification_time=2, data_change=True),
        ),
        ({"remove": {"path": "a", "stats": None}}, RemoveFile(path="a", data_change=True)),
        (
            {
                "protocol": {
                    "minReaderVersion": 1,
                    "minWriterVersion": 2,
                    "readerFeatures": None,
                    "writerFeatures": None,
                }
            },
            Protocol(min_reader_version=1, min_writer_version=2),
        ),
        ({"commitInfo": {"timestamp": "17", "readVersion": "3"}}, CommitInfo(timestamp=17, read_version=3)),
        ({"add": None, "txn": {"appId": "a", "version": 1}}, SetTransaction(app_id="a", version=1)),
    ],
)
def test_loose_lines_of_old_writers(raw: dict[str, Any], expected: Action) -> None:
    assert parse_action(json.dumps(raw).encode()) == expected


def test_commit_info_may_be_any_json() -> None:
    raw = {"commitInfo": {"operation": 5, "operationParameters": "none", "timestamp": 1, "notebook": [1], "x": "y"}}
    action = parse_action(json.dumps(raw).encode())
    assert isinstance(action, CommitInfo)
    assert action.timestamp == 1
    assert action.operation is None
    assert json.loads(encode_action(action)) == raw


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"add":{"path":"a"', "not JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"add":5}', "no JSON object"),
        (b'{"add":{"path":"a"}}', "missing required field"),
        (b'{"txn":{"appId":"a","version":9223372036854775808}}', "version"),
        (b'{"txn":{"appId":"a","version":' + b"9" * 100_000 + b"}}", "not JSON"),
        (b'{"add":{"path":"a","partitionValues":{},"size":-1,"modificationTime":1,"dataChange":true}}', "size"),
        (b'{"add":{"path":"a","partitionValues":{"p":[]},"size":1,"modificationTime":1,"dataChange":true}}', "string"),
        (b'{"add":{"path":"a","partitionValues":[],"size":1,"modificationTime":1,"dataChange":true}}', "partitionV"),
        (b'{"txn":{"appId":"a","version":1},"remove":{"path":"a","dataChange":true}}', "several actions"),
        (b'{"commitInfo":' + b"[" * 100_000, "too deeply"),
        (b'{"future":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, "too deeply"),
        (b'{"txn":{"appId":"\xff","version":1}}', "not JSON"),
        (b'{"txn":{"appId":"a","version":NaN}}', "not JSON"),
        (b'{"metaData":{"format":{}}}', "`id`"),
        (b'{"remove":{"path":"a","dataChange":true,"deletionVector":{"storageType":"u"}}}', "pathOrInlineDv"),
    ],
)
def test_what_is_no_action_is_refused_with_its_line(line: bytes, reason: str) -> None:
    data = encode_action(EVERY_FIELD[6]) + b"\n\n" + line
    with pytest.raises(MalformedActionError, match=reason) as caught:
        list(parse_actions(data))
    assert caught.value.line_number == 3
    assert len(str(caught.value)) < 1000
    assert pickle.loads(pickle.dumps(caught.value)).line_number == 3


def test_a_line_of_senseless_length_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers attack A9."""
    monkeypatch.setattr(actions_json, "LINE_BYTES_MAX", 100)
    with pytest.raises(MalformedActionError, match="more than 100"):
        parse_action(encode_action(SetTransaction(app_id="a" * 200, version=1)))


def test_a_long_line_is_decoded_if_it_has_no_unknown_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers bug B84: a line of nothing but brackets takes fifteen times its size."""
    monkeypatch.setattr(actions_json, "ODD_LINE_BYTES_MAX", 100)
    action = SetTransaction(app_id="a" * 200, version=1)
    assert parse_action(encode_action(action)) == action
    with pytest.raises(MalformedActionError, match="more than 100"):
        parse_action(b'{"new": [' + b"[]," * 100 + b"[]]}")


@given(st.binary(max_size=200))
def test_any_bytes_give_actions_or_our_error(data: bytes) -> None:
    try:
        for action in parse_actions(data):
            encode_action(action)
    except MalformedActionError:
        pass


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.sampled_from(["add", "remove", "cdc", "metaData", "protocol", "txn", "domainMetadata", "commitInfo", "sidecar"]),
    st.dictionaries(
        st.sampled_from(["path", "size", "id", "version", "appId", "format", "tags", "stats", "x", "deletionVector"]),
        _JSON,
        max_size=8,
    ),
)
def test_an_action_that_parses_is_stable_under_writing_and_reading(kind: str, fields: dict[str, Any]) -> None:
    try:
        action = parse_action(json.dumps({kind: fields}).encode())
    except MalformedActionError:
        return
    assert action is not None
    assert parse_action(encode_action(action)) == action


@given(st.text())
def test_user_text_never_breaks_a_line(text: str) -> None:
    """Covers attack A12."""
    action = CommitInfo(user_metadata=text)
    try:
        line = encode_action(action)
    except UnicodeEncodeError:
        return
    assert len(line.splitlines()) == 1
    assert parse_action(line) == action


def test_every_commit_of_the_corpus_parses(corpus: Path) -> None:
    """Tables of other engines; those that are broken on purpose fail with our error."""
    parsed = 0
    for archive in ("golden.tar.gz", "dat.tar.gz"):
        with tarfile.open(corpus / archive) as tar:
            for member in tar:
                if not member.name.endswith(".json") or "/_delta_log/" not in member.name or not member.isfile():
                    continue
                content = tar.extractfile(member)
                assert content is not None
                parsed += len(list(parse_actions(content.read())))
    assert parsed > 1000
