"""The hint and its checksum."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.log.last_checkpoint import (
    LastCheckpoint,
    canonical_json,
    encode_last_checkpoint,
    json_checksum,
    read_last_checkpoint,
    write_last_checkpoint,
)
from anabranch.protocol.log_paths import LAST_CHECKPOINT_PATH
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.memory_store import MemoryStore

SAMPLE = (
    """{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], """
    """{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}"""
)


def test_the_example_of_the_protocol() -> None:
    """See "JSON checksum"."""
    assert canonical_json(SAMPLE) == (
        '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,'
        '"k1"+"k3"+2+"k4"="v4","k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6","k1"+"k3"+2+"k5"+2="v7"'
    )
    assert json_checksum(SAMPLE) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_numbers_are_hashed_as_they_are_written() -> None:
    assert canonical_json('{"a": 1.50, "b": 1e3, "c": null, "d": true}') == '"a"=1.50,"b"=1e3,"c"=null,"d"=true'


def test_strings_are_encoded_strictly() -> None:
    assert canonical_json('{"b":{"y":null,"x":"https://delta.io"},"a":10}') == (
        '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io","b"+"y"=null'
    )
    assert canonical_json('{"é~_-.": "ü>"}') == '"%C3%A9~_-."="%C3%BC%3E"'


def test_a_repeated_key_is_no_json() -> None:
    with pytest.raises(ValueError, match="repeated"):
        canonical_json('{"a":1,"a":2}')


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**40), st.integers(0, 2**40) | st.none())
def test_what_is_written_is_read(version: int, size: int, size_bytes: int | None) -> None:
    store = MemoryStore()
    hint = LastCheckpoint(version=version, size=size, size_bytes=size_bytes, num_of_add_files=size_bytes)
    write_last_checkpoint(store, hint)
    assert read_last_checkpoint(store) == hint


def test_every_change_of_a_byte_is_noticed_or_means_nothing() -> None:
    """Covers fault F38."""
    store = MemoryStore()
    hint = LastCheckpoint(version=10, size=13, size_bytes=14800, num_of_add_files=1)
    data = encode_last_checkpoint(hint)
    for position in range(len(data)):
        for replacement in (b"0", b'"', b" "):
            store.put(LAST_CHECKPOINT_PATH, data[:position] + replacement + data[position + 1 :])
            assert read_last_checkpoint(store) in (None, hint)
    for length in range(len(data)):
        store.put(LAST_CHECKPOINT_PATH, data[:length])
        assert read_last_checkpoint(store) is None


@pytest.mark.parametrize(
    "hint",
    [
        r'{"version":3,"size":1,"note":"\ud800","checksum":"x"}',
        r'{"version":3,"size":1,"\udfff":1,"checksum":"x"}',
        r'{"version":3,"size":1,"tags":["a",{"\ud800":"b"}],"checksum":"0123456789abcdef0123456789abcdef"}',
    ],
)
def test_text_that_is_no_unicode_has_no_checksum(hint: str) -> None:
    store = MemoryStore()
    store.put(LAST_CHECKPOINT_PATH, hint.encode())
    assert read_last_checkpoint(store) is None


def test_a_hint_that_is_too_large_is_never_read(tmp_path: Path) -> None:
    """Covers attack A9: a sparse file is free for its author."""
    store = LocalStore(str(tmp_path))
    store.put(LAST_CHECKPOINT_PATH, b"{}")
    os.truncate(tmp_path / LAST_CHECKPOINT_PATH, 1 << 40)
    assert read_last_checkpoint(store) is None


def test_a_hint_of_delta_spark_is_believed() -> None:
    """It is believed without a checksum too, as other engines write it."""
    store = MemoryStore()
    store.put(LAST_CHECKPOINT_PATH, json.dumps({"version": 3, "size": 8, "parts": 2, "tags": {"a": "b"}}).encode())
    assert read_last_checkpoint(store) == LastCheckpoint(version=3, size=8, parts=2)
