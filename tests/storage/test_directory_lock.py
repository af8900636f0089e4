"""The lock of a folder, by which processes take turns; two objects are as two processes."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from anabranch.storage.local.durable_files import DirectoryLock


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_turns_of_processes_come_one_after_the_other(tmp_path: Path) -> None:
    inside, most, waited = list[int](), list[int](), list[bool]()

    def work() -> None:
        lock = DirectoryLock(str(tmp_path), wait_seconds_max=60)
        for _ in range(20):
            with lock.turn() as has_waited:
                inside.append(1)
                most.append(len(inside))
                waited.append(has_waited)
                time.sleep(0.0005)
                inside.pop()

    before = descriptors()
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 120
    assert any(waited)
    assert descriptors() == before
    assert list(tmp_path.iterdir()) == [], "no file is made"


def test_a_free_lock_takes_no_wait(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    for _ in range(2):
        with lock.turn() as has_waited:
            assert has_waited is False


def test_a_stopped_process_holds_up_no_other_for_long(tmp_path: Path) -> None:
    stopped, ours = DirectoryLock(str(tmp_path)), DirectoryLock(str(tmp_path), wait_seconds_max=0.05)
    before = descriptors()
    with stopped.turn():
        with ours.turn() as has_waited:
            assert has_waited
        started = time.monotonic()
        ours._wait_seconds_max = 60
        with ours.turn() as has_waited:
            assert has_waited, "others may have committed"
        assert time.monotonic() - started < 10, "the lock is ignored after a wait in vain"
    deadline = time.monotonic() + 10
    while descriptors() != before:
        assert time.monotonic() < deadline, "the thread that waits no longer has closed the folder"
        time.sleep(0.001)
    with DirectoryLock(str(tmp_path)).turn() as has_waited:
        assert has_waited is False


def test_without_a_folder_there_is_no_lock(tmp_path: Path) -> None:
    with DirectoryLock(str(tmp_path / "missing")).turn() as has_waited:
        assert has_waited is False
