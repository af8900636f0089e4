"""A table's store that reads files of other tables, below allowed prefixes only. Covers attack A2."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.environment import PathOutsideTableError
from anabranch.storage.external_files import (
    PREFIX_SETTING,
    ExternalFileStore,
    allowed_prefixes_of,
    parse_allowed_prefixes,
)
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.memory_store import MemoryStore
from anabranch.storage.opening.store_opening import open_with_external_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, ()),
        (" , ", ()),
        ("/a, file:/b/ ,file:///c//,/a", ("/a", "/b", "/c")),
        ("s3://bucket/x/,gs://b", ("s3://bucket/x", "gs://b")),
        ("/", ("/",)),
    ],
)
def test_prefixes_are_spelled_canonically(text: str | None, expected: tuple[str, ...]) -> None:
    assert parse_allowed_prefixes(text) == expected


@pytest.mark.parametrize("text", ["relative/path", "/a,b", "C:x"])
def test_a_relative_prefix_is_refused(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="absolute path"):
        parse_allowed_prefixes(text)


def stores() -> tuple[ExternalFileStore, MemoryStore, list[str]]:
    own, other = MemoryStore("memory:/t"), MemoryStore("memory:/other")
    own.put("mine", b"1")
    other.put("d/theirs", b"23456")
    allowed = ["memory:/other"]
    return ExternalFileStore(own, allowed_prefixes=lambda: tuple(allowed), open_prefix=lambda _: other), other, allowed


def test_files_below_a_prefix_are_read_by_their_absolute_path() -> None:
    store, _, _ = stores()
    path = "memory:/other/d/theirs"
    assert store.read(path) == b"23456"
    assert store.read_range(path, 1, 2) == b"34"
    assert store.open(path).read() == b"23456"
    file = store.head(path)
    assert file is not None
    assert (file.path, file.size_bytes) == (path, 5)
    assert store.head("memory:/other/d/none") is None
    assert store.read("mine") == b"1"
    assert [file.path for file in store.list_tree()] == ["mine"]
    assert allowed_prefixes_of(store) == ("memory:/other",)
    assert allowed_prefixes_of(store.own) == ()


def test_what_is_forbidden_again_is_not_read(tmp_path: Path) -> None:
    for name in ("t", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "f").write_bytes(b"1")
    allowed = [str(tmp_path / "other")]
    store = ExternalFileStore(
        LocalStore(str(tmp_path / "t")), allowed_prefixes=lambda: tuple(allowed), open_prefix=LocalStore
    )
    path = str(tmp_path / "other" / "f")
    assert store.read(path) == b"1"
    allowed.clear()
    for read in (store.read, store.head, store.open, lambda path: store.read_range(path, 0, 1)):
        with pytest.raises(PathOutsideTableError):
            read(path)


def test_nothing_elsewhere_is_written_or_deleted(tmp_path: Path) -> None:
    for name in ("t", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "theirs").write_bytes(b"1")
    store = open_with_external_files(str(tmp_path / "t"), {PREFIX_SETTING: str(tmp_path / "other")})
    path = str(tmp_path / "other" / "theirs")
    assert store.read(path) == b"1"
    for change in (
        lambda: store.put(path, b"2"),
        lambda: store.put_if_absent(path, b"2"),
        lambda: store.delete(path),
        lambda: store.delete_many([path]),
        lambda: store.remove_directory(path),
    ):
        with pytest.raises(PathOutsideTableError):
            change()
    assert (tmp_path / "other" / "theirs").read_bytes() == b"1"


def test_a_neighbour_whose_name_begins_alike_is_elsewhere(tmp_path: Path) -> None:
    for name in ("t", "other", "other2"):
        (tmp_path / name).mkdir()
    (tmp_path / "other2" / "f").write_bytes(b"1")
    store = open_with_external_files(str(tmp_path / "t"), {PREFIX_SETTING: str(tmp_path / "other")})
    with pytest.raises(PathOutsideTableError):
        store.read(str(tmp_path / "other2" / "f"))


def test_without_prefixes_the_store_is_not_wrapped(tmp_path: Path) -> None:
    assert isinstance(open_with_external_files(str(tmp_path), {}), LocalStore)
