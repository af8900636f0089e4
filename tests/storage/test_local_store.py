"""What only a disk can do wrong."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors.environment import (
    ConditionalPutUnsupportedError,
    FileMissingError,
    PathOutsideTableError,
    StorageError,
    UnsupportedStorageError,
)
from anabranch.storage.local import durable_files
from anabranch.storage.local.local_store import LocalStore, local_path
from anabranch.storage.log_store import PutOutcome

NAME = "_delta_log/0.json"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(str(tmp_path / "table"))
    store.put("_delta_log/before", b"")
    return store


def on_disk(store: LocalStore) -> set[str]:
    return set(os.listdir(f"{store.root}/_delta_log"))


def failing(number: int) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return call


def patch(monkeypatch: pytest.MonkeyPatch, name: str, replacement: Callable[..., Any]) -> None:
    monkeypatch.setattr(f"anabranch.storage.local.durable_files.os.{name}", replacement)


def record_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that decide what survives a power loss, in order."""
    calls: list[str] = []

    def kind(descriptor: int) -> str:
        return "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"

    def wrap(name: str, describe: Callable[..., str]) -> None:
        original = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            calls.append(describe(*arguments))
            return original(*arguments, **options)

        patch(monkeypatch, name, call)

    wrap("fsync", lambda descriptor: f"sync {kind(descriptor)}")
    wrap("link", lambda source, target: "link")
    wrap("replace", lambda source, target: "replace")
    wrap("mkdir", lambda path: f"mkdir {Path(path).name}")
    return calls


def test_data_is_durable_before_its_name_and_the_name_before_the_answer(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers faults F3 and F23."""
    calls = record_calls(monkeypatch)
    store.put_if_absent(NAME, b"x")
    assert calls == ["sync file", "link", "sync directory"]
    calls.clear()
    store.put("_delta_log/_last_checkpoint", b"x")
    assert calls == ["sync file", "replace", "sync directory"]


def synced_directories(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The directories whose names were made durable, in order."""
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    patch(monkeypatch, "fsync", noted)
    return synced


def test_new_directories_are_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, synced = record_calls(monkeypatch), synced_directories(monkeypatch)
    LocalStore(str(tmp_path / "a" / "table")).put_if_absent(NAME, b"x")
    assert [call for call in calls if call.startswith("mkdir")] == ["mkdir a", "mkdir table", "mkdir _delta_log"]
    for made_in in (tmp_path, tmp_path / "a", tmp_path / "a" / "table"):
        assert str(made_in) in synced


def test_every_directory_above_a_table_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes folders for the first data files, and syncs nothing."""
    table = tmp_path / "new" / "and" / "deep" / "table"
    (table / "_delta_log").mkdir(parents=True)
    store, synced = LocalStore(str(table)), synced_directories(monkeypatch)
    store.put_if_absent(NAME, b"x")
    above = [str(directory) for directory in table.parents if directory.stat().st_dev == table.stat().st_dev]
    assert {str(table), *above} <= set(synced)
    assert synced[-1] == str(table / "_delta_log")

    synced.clear()
    store.put_if_absent("_delta_log/1.json", b"x")
    assert synced == [str(table / "_delta_log")], "once is enough"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every directory")
def test_a_directory_above_that_we_may_not_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "shut" / "table").mkdir(parents=True)
    (tmp_path / "shut").chmod(0o311)
    try:
        assert LocalStore(str(tmp_path / "shut" / "table")).put_if_absent(NAME, b"x") is PutOutcome.CREATED
    finally:
        (tmp_path / "shut").chmod(0o755)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["write", "fsync", "close", "open"])
def test_a_full_or_failing_disk_makes_nothing(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    """Covers faults F4, F5 and F15."""
    close = os.close

    def fail_to_close(descriptor: int) -> None:
        close(descriptor)
        failing(number)()

    patch(monkeypatch, call, fail_to_close if call == "close" else failing(number))
    for put in (store.put_if_absent, store.put):
        with pytest.raises(StorageError, match=errno.errorcode[number]):
            put(NAME, b"x" * 1000)
    monkeypatch.undo()
    assert on_disk(store) == {"before"}
    assert store.put_if_absent(NAME, b"x") is PutOutcome.CREATED


def test_short_writes_are_continued(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers fault F6."""
    write = os.write
    patch(monkeypatch, "write", lambda descriptor, data: write(descriptor, data[:7]))
    store.put_if_absent(NAME, bytes(range(100)))
    assert store.read(NAME) == bytes(range(100))


def test_a_link_that_may_have_landed_is_unknown(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers fault F15."""
    patch(monkeypatch, "link", failing(errno.EIO))
    assert store.put_if_absent(NAME, b"x") is PutOutcome.UNKNOWN
    assert on_disk(store) == {"before"}


@pytest.mark.parametrize("number", [errno.EIO, errno.EEXIST, errno.EPERM])
def test_a_link_whose_call_failed_but_succeeded_is_noticed(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Covers faults F16 and F19."""
    link = os.link

    def land_and_fail(source: str, target: str) -> None:
        link(source, target)
        raise OSError(number, "the reply was lost")

    patch(monkeypatch, "link", land_and_fail)
    assert store.put_if_absent(NAME, b"x") is PutOutcome.CREATED


def test_a_refused_link_is_surely_not_made(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch, "link", failing(errno.EACCES))
    with pytest.raises(StorageError, match="EACCES"):
        store.put_if_absent(NAME, b"x")
    assert on_disk(store) == {"before"}


def test_a_name_that_may_not_survive_is_unknown(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers fault F23."""
    monkeypatch.setattr(durable_files, "sync_directory", failing(errno.EIO))
    assert store.put_if_absent(NAME, b"x") is PutOutcome.UNKNOWN
    assert store.read(NAME) == b"x"


def test_what_is_there_is_durable_only_once_its_directory_is(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(NAME, b"x")
    monkeypatch.setattr(durable_files, "sync_directory", failing(errno.EIO))
    with pytest.raises(StorageError, match="EIO"):
        store.make_durable(NAME)
    monkeypatch.undo()
    store.make_durable(NAME)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EMLINK])
def test_without_hard_links_an_exclusive_rename_does_it(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    patch(monkeypatch, "link", failing(number))
    assert store.put_if_absent(NAME, b"ours") is PutOutcome.CREATED
    assert store.put_if_absent(NAME, b"theirs") is PutOutcome.EXISTS
    assert store.read(NAME) == b"ours"
    assert on_disk(store) == {"before", "0.json"}


@pytest.mark.parametrize("rename", [None, lambda source, target: errno.EINVAL])
def test_with_neither_writing_is_refused(store: LocalStore, monkeypatch: pytest.MonkeyPatch, rename: Any) -> None:
    patch(monkeypatch, "link", failing(errno.EPERM))
    monkeypatch.setattr(durable_files, "_exclusive_rename", lambda: rename)
    with pytest.raises(ConditionalPutUnsupportedError, match="hard links"):
        store.put_if_absent(NAME, b"x")
    assert on_disk(store) == {"before"}


def test_links_lead_no_write_out_of_the_table(store: LocalStore, tmp_path: Path) -> None:
    """Covers fault F54, attack A3."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("keep")
    os.symlink(outside, f"{store.root}/out")
    operations: list[Callable[[str], Any]] = [
        store.delete,
        lambda path: store.put(path, b""),
        lambda path: store.put_if_absent(path, b""),
    ]
    for operation in operations:
        with pytest.raises(PathOutsideTableError, match="symbolic link"):
            operation("out/victim")
    assert (outside / "victim").read_text() == "keep"
    assert {file.path for file in store.list_tree()} == {"_delta_log/before"}


def test_a_root_that_is_a_link_is_fine(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    store = LocalStore(str(tmp_path / "link"))
    assert store.put_if_absent(NAME, b"x") is PutOutcome.CREATED
    assert store.root == str(tmp_path / "link")
    store.delete(NAME)
    assert store.head(NAME) is None


def test_a_table_that_was_removed_can_be_made_again(store: LocalStore) -> None:
    import shutil

    shutil.rmtree(store.root)
    assert store.put_if_absent(NAME, b"x") is PutOutcome.CREATED
    shutil.rmtree(store.root)
    store.put(NAME, b"y")
    assert store.read(NAME) == b"y"


def test_temporary_files_are_never_shown_and_abandoned_ones_go(store: LocalStore) -> None:
    """Covers fault F22."""
    directory = Path(store.root, "_delta_log")
    fresh, abandoned = directory / ".anabranch-fresh.tmp", directory / ".anabranch-old.tmp"
    for path in (fresh, abandoned):
        path.write_bytes(b"half a com")
    two_days_ago = time.time() - 2 * 24 * 3600
    os.utime(abandoned, (two_days_ago, two_days_ago))
    assert [file.path for file in store.list_from("_delta_log")] == ["_delta_log/before"]
    assert [file.path for file in store.list_tree()] == ["_delta_log/before"]

    LocalStore(store.root).put(NAME, b"x")
    assert fresh.exists(), "its writer may be at work"
    assert not abandoned.exists()


@pytest.mark.parametrize("change", ["put", "put_if_absent", "delete"])
def test_checksums_that_hadoop_left_do_not_contradict_us(store: LocalStore, change: str) -> None:
    checksum = Path(store.root, "_delta_log", ".0.json.crc")
    checksum.write_bytes(b"of other contents")
    match change:
        case "put":
            store.put(NAME, b"x")
        case "put_if_absent":
            store.put_if_absent(NAME, b"x")
        case _:
            store.delete(NAME)
    assert not checksum.exists()


def test_names_that_are_no_text_can_be_listed_and_deleted(store: LocalStore) -> None:
    with open(os.fsencode(store.root) + b"/_delta_log/\xff\xfe", "wb") as file:
        file.write(b"x")
    before, odd = store.list_from("_delta_log")
    assert before.path == "_delta_log/before"
    assert store.read(odd.path) == b"x"
    store.delete(odd.path)
    assert on_disk(store) == {"before"}


@pytest.mark.parametrize("what", ["pipe", "link to /dev/zero", "directory"])
def test_what_is_no_file_is_none(store: LocalStore, what: str) -> None:
    """A pipe would let its reader wait for ever, and a device has no end."""
    path = Path(store.root, NAME)
    match what:
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to("/dev/zero")
    assert store.head(NAME) is None
    for read in (store.read, store.open, lambda path: store.read_range(path, 0, 1)):
        with pytest.raises(FileMissingError):
            read(NAME)


def test_files_of_the_log_are_readable_by_others(store: LocalStore) -> None:
    mask = os.umask(0o022)
    try:
        store.put_if_absent(NAME, b"x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(os.stat(f"{store.root}/{NAME}").st_mode) == 0o644


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("/a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b/", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:/a b/%20", "/a b/%20"),
        ("/a/../b", "/b"),
        ("~/t", os.path.expanduser("~/t")),
        ("t", os.path.join(os.getcwd(), "t")),
    ],
)
def test_roots(root: str, path: str) -> None:
    assert local_path(root) == path


@pytest.mark.parametrize("root", ["file://elsewhere/a", "file:relative"])
def test_roots_on_other_machines_are_refused(root: str) -> None:
    with pytest.raises(UnsupportedStorageError, match="file:///path"):
        local_path(root)
