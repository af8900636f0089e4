"""Where compiled classes are kept, and whom a kept jar is taken from. No JVM is needed."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
import time
import zipfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from anabranch.spark.extension import kept_jars
from anabranch.spark.extension.java_unit import JavaUnit, java_sources, java_unit
from anabranch.spark.extension.kept_jars import (
    UNUSED_MAX_S,
    cache_folder,
    is_whole,
    jar_bytes,
    jar_file_name,
    jar_path,
    keep_jar,
    kept_jar,
    temporary_jar,
)

DIGEST = "0123456789abcdef0123456789abcdef"
NAME = jar_file_name(spark_version="4.3.0", digest=DIGEST)
JAR = jar_bytes({"anabranch.Json": b"some code", "anabranch.Other": bytes(2000)}, digest=DIGEST)
NOW_S = 1_800_000_000.0


@pytest.fixture(autouse=True)
def no_warning_was_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_jars, "_problems_logged", set())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "caches" / "anabranch"


def kept(folder: Path) -> Path:
    jar = jar_path(folder, NAME)
    assert jar is not None
    assert keep_jar(jar, JAR, now_s=NOW_S) == jar
    return jar


def is_refused(folder: Path, caplog: pytest.LogCaptureFixture, why: str) -> bool:
    """Whether nothing is kept there, with exactly one warning of that reason."""
    for _ in range(2):
        assert jar_path(folder, NAME) is None
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "ANABRANCH_CACHE" in warning
    return why in warning


# Which folder


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "/home/ann/.cache/anabranch"),
        ({"XDG_CACHE_HOME": "/caches"}, "/caches/anabranch"),
        ({"XDG_CACHE_HOME": "relative"}, "/home/ann/.cache/anabranch"),
        ({"XDG_CACHE_HOME": "/caches", "ANABRANCH_CACHE": "/mine"}, "/mine"),
        ({"ANABRANCH_CACHE": "~/mine"}, "/home/ann/mine"),
        ({"ANABRANCH_CACHE": ""}, "/home/ann/.cache/anabranch"),
    ],
)
def test_the_folder(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: str) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert cache_folder(environment) == Path(expected)


@pytest.mark.parametrize("value", ["off", "OFF", " off "])
def test_keeping_can_be_turned_off(value: str) -> None:
    assert cache_folder({"ANABRANCH_CACHE": value, "XDG_CACHE_HOME": "/caches"}) is None


def test_any_version_of_spark_makes_a_valid_file_name() -> None:
    assert jar_file_name(spark_version="4.0.1-amzn/0 x", digest="ab") == "delta-4.0.1-amzn_0_x-ab.jar"


def test_the_folder_is_made_for_the_user_alone(folder: Path) -> None:
    assert jar_path(folder, NAME) == folder.resolve() / NAME
    for made in (folder, folder.parent):
        assert made.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_no_reason_to_warn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    assert jar_path(tmp_path / "file" / "anabranch", NAME) is None
    assert caplog.records == []


# Whom to trust


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o777])
def test_a_folder_that_others_may_enter_is_refused(folder: Path, caplog: pytest.LogCaptureFixture, mode: int) -> None:
    kept(folder)
    folder.chmod(mode)
    assert is_refused(folder, caplog, "is open to other users")


def test_a_folder_behind_a_link_is_refused(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept(tmp_path / "elsewhere")
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert is_refused(folder, caplog, "is not a folder but a link")


def test_a_link_above_the_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "scratch")
    assert jar_path(tmp_path / "link" / "anabranch", NAME) == (tmp_path / "scratch" / "anabranch" / NAME).resolve()


def test_a_folder_of_another_user_is_refused(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(folder)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    assert is_refused(folder, caplog, "belongs to another user")


def test_a_folder_that_others_may_rename_is_refused(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept(folder)
    folder.parent.chmod(0o777)
    assert is_refused(folder, caplog, "everybody may write to")


def test_a_folder_below_one_like_tmp_is_not(folder: Path) -> None:
    kept(folder)
    folder.parent.chmod(0o1777)
    assert jar_path(folder, NAME) is not None


def test_a_jar_behind_a_link_is_refused(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jar = kept(folder)
    jar.rename(tmp_path / "moved.jar")
    jar.symlink_to(tmp_path / "moved.jar")
    assert is_refused(folder, caplog, "is not a file but a link")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_jar_that_others_may_write_is_refused(folder: Path, caplog: pytest.LogCaptureFixture, mode: int) -> None:
    kept(folder).chmod(mode)
    assert is_refused(folder, caplog, "other users may write to")


def test_a_system_without_owners_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "geteuid")
    assert jar_path(folder, NAME) is None


# Keeping


def test_a_jar_is_kept_as_it_is(folder: Path) -> None:
    jar = kept(folder)
    os.utime(jar, (1_000_000, 1_000_000))

    assert kept_jar(jar, digest=DIGEST, now_s=NOW_S) == jar
    assert jar.read_bytes() == JAR
    assert jar.stat().st_mode & 0o777 == 0o600
    assert (jar.stat().st_mtime, jar.stat().st_atime) == (1_000_000, NOW_S)
    assert list(folder.iterdir()) == [jar]
    with zipfile.ZipFile(jar) as archive:
        assert archive.testzip() is None
        assert archive.read("anabranch/Json.class") == b"some code"


def test_there_may_be_none(folder: Path) -> None:
    jar = jar_path(folder, NAME)
    assert jar is not None
    assert kept_jar(jar, digest=DIGEST, now_s=NOW_S) is None


def test_any_damage_is_detected() -> None:
    assert is_whole(JAR, digest=DIGEST)
    for at in range(len(JAR)):
        assert not is_whole(JAR[:at], digest=DIGEST)
        assert not is_whole(JAR[:at] + bytes([JAR[at] ^ 1]) + JAR[at + 1 :], digest=DIGEST)
    assert not is_whole(JAR + b"x", digest=DIGEST)


def test_a_damaged_jar_and_one_of_other_sources_are_not_used(folder: Path) -> None:
    jar = kept(folder)
    assert kept_jar(jar, digest=DIGEST[::-1], now_s=NOW_S) is None
    jar.write_bytes(JAR[:-100])
    assert kept_jar(jar, digest=DIGEST, now_s=NOW_S) is None


def test_a_jar_is_the_same_whenever_it_is_made() -> None:
    assert jar_bytes({"anabranch.Other": bytes(2000), "anabranch.Json": b"some code"}, digest=DIGEST) == JAR
    assert zipfile.ZipFile(io.BytesIO(JAR)).comment.startswith(DIGEST.encode())


def test_a_folder_that_takes_no_file_keeps_nothing(folder: Path) -> None:
    jar = jar_path(folder, NAME)
    assert jar is not None
    jar.mkdir()
    assert keep_jar(jar, JAR, now_s=NOW_S) is None
    assert list(folder.iterdir()) == [jar]


def test_what_is_long_unused_is_removed(folder: Path) -> None:
    jar = kept(folder)
    long_ago = NOW_S - UNUSED_MAX_S - 1
    times = {
        "delta-4.2.0-unused.jar": (long_ago, long_ago),
        ".half.tmp": (long_ago, long_ago),
        "classes-4.3.0-unused-5.jsa": (long_ago, long_ago),
        "delta-4.2.0-read.jar": (NOW_S - 5, long_ago),
        "delta-4.2.0-new.jar": (long_ago, NOW_S - 5),
        "notes.txt": (long_ago, long_ago),
        jar.name: (long_ago, long_ago),
    }
    for name, (read, written) in times.items():
        (folder / name).write_bytes(JAR)
        os.utime(folder / name, (read, written))

    keep_jar(jar, JAR, now_s=NOW_S)

    left = {"delta-4.2.0-read.jar", "delta-4.2.0-new.jar", "notes.txt", jar.name}
    assert {file.name for file in folder.iterdir()} == left


def test_many_processes_at_once_find_no_jar_or_a_whole_one(folder: Path) -> None:
    jar = kept(folder)
    now_s = time.time()
    with ProcessPoolExecutor(4) as pool:
        tasks = [
            pool.submit(partial(keep_jar, jar, JAR, now_s=now_s))
            if i % 2
            else pool.submit(partial(kept_jar, jar, digest=DIGEST, now_s=now_s))
            for i in range(400)
        ]
        assert {task.result() for task in tasks} == {jar}
    assert list(folder.iterdir()) == [jar]


def test_a_temporary_jar_ends_with_its_process(tmp_path: Path) -> None:
    """A fork that ends before does not take it away."""
    program = (
        "import os, sys\n"
        "from anabranch.spark.extension.kept_jars import temporary_jar\n"
        "jar = temporary_jar('x.jar', b'content')\n"
        "if os.fork() == 0:\n    sys.exit()\n"
        "os.wait()\n"
        "print(jar, oct(jar.parent.stat().st_mode), jar.read_bytes())\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert str(tmp_path) in done.stdout
    assert "0o40700 b'content'" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_two_temporary_jars_do_not_meet() -> None:
    assert len({temporary_jar(NAME, JAR) for _ in range(3)}) == 3


# The text that is compiled


def test_sources_of_all_folders_become_one_unit(tmp_path: Path) -> None:
    (tmp_path / "reads").mkdir()
    (tmp_path / "reads" / "B.java").write_text("package anabranch;\n\nclass B extends V1_OFFSET {}\n")
    (tmp_path / "A.java").write_text("package delta;\n\nclass A {}\n")
    (tmp_path / "notes.txt").write_text("not Java")

    unit = java_unit(java_sources(tmp_path), {"V1_OFFSET": "org.example.Offset"})

    assert unit.sources == {
        "A.java": "package delta;\n\nclass A {}\n",
        "reads/B.java": "package anabranch;\n\nclass B extends org.example.Offset {}\n",
    }
    (name,) = unit.with_digest(DIGEST).keys() - unit.sources.keys()
    assert unit.with_digest(DIGEST)[name].startswith("package anabranch;")
    assert DIGEST in unit.with_digest(DIGEST)[name]


def test_a_digest_is_of_the_sources_and_the_build_of_spark() -> None:
    digests = [
        JavaUnit(package=package, sources={path: text}).digest(build)
        for package, path, text, build in itertools.product(*[["a", "b"]] * 4)
    ]
    assert len(set(digests)) == 16
    assert all(len(digest) == len(DIGEST) for digest in digests)
