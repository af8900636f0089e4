"""All files below a root, and many removed at once: the same of every storage."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors.environment import PathOutsideTableError, StorageError
from anabranch.storage.file_tree import FAILURES_MAX, TREE_SCHEMA, Entry, delete_one_by_one, tree_page
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import LogStore
from anabranch.storage.object import object_tree

PATHS = ["x", "a/x", "a/b/x y", "a/b/é=1/%20", "_log/1", "_log/deep/2", "z/_log/3", "aa"]


def listed(store: LogStore, *, but: str = "") -> dict[str, tuple[int, int]]:
    """Files with size and time, without what lies below the directory `but`."""
    pages = list(store.walk(lambda directory: directory != but))
    assert all(page.schema == TREE_SCHEMA for page in pages)
    rows = pa.concat_tables([TREE_SCHEMA.empty_table(), *pages]).to_pylist()
    return {row["path"]: (row["size_bytes"], row["modified_ms"]) for row in rows if not row["is_directory"]}


def test_walk(store: LogStore) -> None:
    assert listed(store) == {}
    for path in PATHS:
        store.put(path, path.encode())
    files = listed(store)
    assert sorted(files) == sorted(PATHS)
    for path, (size_bytes, modified_ms) in files.items():
        file = store.head(path)
        assert file is not None
        assert (size_bytes, modified_ms) == (file.size_bytes, file.modified_ms)
    assert sorted(listed(store, but="_log")) == sorted(path for path in PATHS if not path.startswith("_log/"))
    assert sorted(listed(store, but="a")) == sorted(path for path in PATHS if not path.startswith("a/"))


def test_delete_many(store: LogStore) -> None:
    for path in PATHS:
        store.put(path, b"1")
    deletion = store.delete_many(["x", "a/b/x y", "a/b/é=1/%20", "never/there", "z/_log/3"])
    assert (deletion.count, deletion.failures) == (5, ())
    assert sorted(listed(store)) == ["_log/1", "_log/deep/2", "a/x", "aa"]
    assert store.delete_many([]).count == 0
    for path in ("../x", "/x", "a//b", ""):
        with pytest.raises(PathOutsideTableError):
            store.delete_many(["aa", path])
        with pytest.raises(PathOutsideTableError):
            store.remove_directory(path)
    assert "aa" in listed(store)


def test_directories(store: LogStore, tmp_path: Path) -> None:
    store.put("a/b/x", b"1")
    assert not store.remove_directory("a/b")
    assert not store.remove_directory("never/there")
    store.delete_many(["a/b/x"])
    has_directories = (tmp_path / "table" / "a" / "b").is_dir()
    rows = pa.concat_tables([TREE_SCHEMA.empty_table(), *store.walk(lambda _: True)]).to_pylist()
    assert sorted(row["path"] for row in rows if row["is_directory"]) == (["a", "a/b"] if has_directories else [])
    assert not store.remove_directory("a")
    assert [store.remove_directory(path) for path in ("a/b", "a")] == [has_directories] * 2
    assert not (tmp_path / "table" / "a").exists()


def test_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for name in (b"good", b"bad-\xff"):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_text("x")
    assert sorted(listed(store)) == ["good"]
    assert tree_page([]).num_rows == 0


def test_failed_deletions_are_returned(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    for number in range(FAILURES_MAX + 2):
        store.put(f"d{number}/file", b"x")
    folders = [f"d{number}" for number in range(FAILURES_MAX + 2)]
    deletion = store.delete_many(["d0/file", *folders])
    assert deletion.count == 1
    assert [failure.path for failure in deletion.failures] == folders[:FAILURES_MAX], "then it gives up"
    assert {failure.doing for failure in deletion.failures} == {"delete"}

    def refuse(path: str) -> None:
        if path != "good":
            raise StorageError(root="", path=path, doing="delete", cause="denied")

    assert delete_one_by_one(["bad", "good"], refuse).count == 1


@pytest.mark.parametrize("call", ["unlink", "open", "close", "rmdir", "stat", "scandir", "listdir"])
def test_a_disk_that_fails_ends_in_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Covers fault F15, for clearing up."""
    store = LocalStore(str(tmp_path))
    for name in ("a/x", "b/x"):
        store.put(name, b"x")
    real = getattr(os, call)

    def fail(*arguments: Any, **options: Any) -> Any:
        if call == "close":
            real(*arguments, **options)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(f"anabranch.storage.local.local_tree.os.{call}", fail)
    for work in (
        lambda: store.delete_many(["a/x", "b/x", "gone"]),
        lambda: store.remove_directory("a"),
        lambda: store.delete("a/x"),
        lambda: list(store.walk(lambda directory: True)),
        lambda: list(store.list_tree()),
        lambda: list(store.list_from("a")),
        lambda: store.head("a/x"),
        lambda: store.read("a/x"),
        lambda: store.make_durable("a/x"),
    ):
        with contextlib.suppress(StorageError):
            work()


class Service:
    """An ordered listing in pages, as object stores give it, which counts requests."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = sorted(paths, key=str.encode)
        self.requests: list[tuple[str, str | None]] = []

    def pages(self, directory: str, offset: str | None) -> Iterator[list[Entry]]:
        within = [path for path in self.paths if not directory or path.startswith(f"{directory}/")]
        after = [path for path in within if offset is None or path.encode() > offset.encode()]
        for start in range(0, len(after), object_tree.PAGE_SIZE) or [0]:
            self.requests.append((directory, offset))
            yield [(path, 1, 1, False) for path in after[start : start + object_tree.PAGE_SIZE]]


@pytest.mark.parametrize("in_order", [True, False])
def test_a_large_bucket_is_listed_whole_and_the_log_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, in_order: bool
) -> None:
    """Every file is listed once, no matter where a page ends."""
    monkeypatch.setattr(object_tree, "PAGE_SIZE", 10)
    files = [f"day={day:02d}/{number}" for day in range(12) for number in range(day * 3)] + [f"f{n}" for n in range(25)]
    service = Service([*files, *(f"_log/{number}" for number in range(500)), ".anabranch-1", "b/.anabranch-2"])
    shown = [entry[0] for entry in object_tree.walk(service.pages, lambda path: path != "_log", in_order=in_order)]
    assert sorted(shown) == sorted(files)
    if in_order:
        assert ("_log", None) not in service.requests
        assert len(service.requests) < 60
