"""Several processes on one disk, and processes that die."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import PutOutcome
from storage.writers import is_whole

WRITERS = Path(__file__).with_name("writers.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITERS), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def test_of_several_processes_one_makes_each_version(tmp_path: Path) -> None:
    versions, root = 300, str(tmp_path / "table")
    processes = {str(who): start("commit_versions", root, str(who), str(versions)) for who in range(4)}
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    claims = {who: [int(line) for line in process.communicate()[0].split()] for who, process in processes.items()}

    assert sorted(version for claimed in claims.values() for version in claimed) == list(range(versions))
    store = LocalStore(root)
    for who, claimed in claims.items():
        for version in claimed:
            assert store.read(f"_delta_log/{version:020d}.json") == who.encode()
    assert len(os.listdir(f"{root}/_delta_log")) == versions, "temporary files were left"


def test_a_writer_that_dies_at_any_system_call_leaves_whole_files(tmp_path: Path) -> None:
    """Covers faults F3, F6, F14, F22, F23 and F59, this one for the local disk."""
    process = start("die", str(tmp_path))
    output, _ = process.communicate(timeout=120)
    survivor, outcome = output.split()
    assert outcome == "created"
    assert int(survivor) > 15, "too few system calls were seen to be counted"

    for step in range(1, int(survivor) + 1):
        store = LocalStore(str(tmp_path / str(step)))
        for file in [*store.list_from("_delta_log"), *store.list_tree()]:
            assert is_whole(store.read(file.path)), (step, file)
            assert file.path in {"_delta_log/0.json", "_delta_log/_last_checkpoint"}
        # What the dead writer left does not block the next one.
        made = store.put_if_absent("_delta_log/0.json", b"next")
        assert made is (PutOutcome.CREATED if store.read("_delta_log/0.json") == b"next" else PutOutcome.EXISTS)


@pytest.mark.long
def test_killing_writers_never_shows_a_torn_file(tmp_path: Path) -> None:
    """Covers faults F14 and F22."""
    root, chance, acknowledged = str(tmp_path / "table"), random.Random(7), set()
    for _ in range(8):
        process = start("commit_forever", root)
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(chance.uniform(0, 0.15))
        process.kill()
        lines += process.communicate()[0].splitlines()
        acknowledged |= {int(line) for line in lines if line.strip()}

        store = LocalStore(root)
        files = list(store.list_from("_delta_log"))
        assert all(is_whole(store.read(file.path)) for file in files)
        present = {int(Path(file.path).stem) for file in files if file.path.endswith(".json")}
        assert acknowledged <= present
        assert present == set(range(len(present)))
