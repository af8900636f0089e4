"""The archive of Spark's classes: who writes it, who uses it, and that no file in its place stops a JVM. No Spark runs."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.errors.arguments import InvalidOptionError
from anabranch.java_search import java_path, java_version
from anabranch.spark import class_archive
from anabranch.spark.class_archive import ARCHIVE_SETTING, CLAIM_MAX_S, archive_options

WRITTEN = re.compile(r"-XX:ArchiveClassesAtExit=(\S+)")
USED = re.compile(r"-XX:SharedArchiveFile=(\S+)")


class Starts:
    """Starts of one user's sessions."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache" / "anabranch"
        self.spark = folder / "spark"
        (self.spark / "jars").mkdir(parents=True)
        (self.spark / "jars" / "spark-core.jar").write_bytes(b"jar")
        self.java = folder / "java"
        (self.java / "bin").mkdir(parents=True)
        (self.java / "lib" / "server").mkdir(parents=True)
        (self.java / "lib" / "server" / "classes.jsa").write_bytes(b"base")
        (self.java / "release").write_text('JAVA_VERSION="17.0.1"\n')
        (self.java / "bin" / "java").write_text("#!/bin/sh\nexit 9\n")
        (self.java / "bin" / "java").chmod(0o755)

    def options(self, settings: dict[str, str] | None = None, **environment: str) -> str:
        own = {"JAVA_HOME": str(self.java), "ANABRANCH_CACHE": str(self.cache), **environment}
        return archive_options(settings or {}, own, spark_home=self.spark)

    def written(self) -> Path:
        """Where a session that starts now, and is not the first, is to write."""
        if not any(self.cache.glob(".classes-*")):
            assert self.options() == ""
        match = WRITTEN.search(self.options())
        assert match is not None
        return Path(match[1])

    def used(self) -> Path:
        match = USED.search(self.options())
        assert match is not None
        return Path(match[1])


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


ARCHIVE = class_archive._MAGIC + bytes(5000)


def test_the_second_session_writes_and_later_ones_use(starts: Starts) -> None:
    assert starts.options() == "", "there may never be another session"
    written = starts.written()
    assert starts.options() == "", "another session writes it"
    written.write_bytes(ARCHIVE)
    used = starts.used()
    assert used.read_bytes() == ARCHIVE
    assert starts.used() == used
    assert [file.name for file in starts.cache.iterdir()] == [used.name], "nothing else is left"


def test_a_session_that_was_killed_is_followed_by_another_writer(starts: Starts) -> None:
    first = starts.written()
    (claim,) = starts.cache.iterdir()
    os.utime(claim, (0, time.time() - CLAIM_MAX_S - 1))
    assert starts.written() != first


@pytest.mark.parametrize("content", [b"", bytes(5000), b"\0" + ARCHIVE])
def test_what_java_has_not_finished_is_not_used(starts: Starts, content: bytes) -> None:
    starts.written().write_bytes(content)
    assert starts.options() == ""


@pytest.mark.parametrize("content", [ARCHIVE[:-1], ARCHIVE + b"\0", b"", bytes(len(ARCHIVE))])
def test_an_archive_that_is_not_as_it_was_written_is_removed(starts: Starts, content: bytes) -> None:
    starts.written().write_bytes(ARCHIVE)
    used = starts.used()
    used.write_bytes(content)
    assert starts.written().parent == starts.cache
    assert not used.exists()


def replace_jar(starts: Starts) -> None:
    (starts.spark / "jars" / "spark-core.jar").write_bytes(b"another jar")


def replace_java(starts: Starts) -> None:
    (starts.java / "lib" / "server" / "classes.jsa").write_bytes(b"another base")


@pytest.mark.parametrize("replace", [replace_jar, replace_java])
def test_an_archive_of_another_spark_or_java_is_replaced(starts: Starts, replace: Callable[[Starts], None]) -> None:
    starts.written().write_bytes(ARCHIVE)
    old = starts.used()
    replace(starts)
    starts.written().write_bytes(ARCHIVE)
    new = starts.used()
    assert new != old
    assert [file.name for file in starts.cache.iterdir()] == [new.name]


def test_an_archive_that_another_user_could_have_written_is_not_used(starts: Starts) -> None:
    starts.written().write_bytes(ARCHIVE)
    starts.used().chmod(0o666)
    assert USED.search(starts.options()) is None


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({ARCHIVE_SETTING: "false"}, {}),
        ({"spark.driver.extraClassPath": "/a"}, {}),
        ({"spark.driver.memory": "48g"}, {}),
        ({}, {"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=/mine"}),
        ({}, {"HADOOP_CONF_DIR": "/etc/hadoop"}),
        ({}, {"ANABRANCH_CACHE": "off"}),
        ({}, {"ANABRANCH_CACHE": "/proc/nowhere"}),
        ({}, {"JAVA_HOME": "/nowhere"}),
    ],
)
def test_there_is_none(starts: Starts, settings: dict[str, str], environment: dict[str, str]) -> None:
    assert starts.options(settings, **environment) == ""


def test_java_without_an_archive_of_its_own_or_too_new_has_none(starts: Starts) -> None:
    (starts.java / "release").write_text('JAVA_VERSION="99"\n')
    assert starts.options() == ""
    (starts.java / "release").write_text('JAVA_VERSION="17.0.1"\n')
    (starts.java / "lib" / "server" / "classes.jsa").unlink()
    assert starts.options() == ""


def test_a_disk_that_is_almost_full_is_left_alone(starts: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "FREE_BYTES_MIN", 1 << 60)
    assert starts.options() == ""
    assert list(starts.cache.iterdir()) == []


def test_another_word_is_refused(starts: Starts) -> None:
    with pytest.raises(InvalidOptionError, match=ARCHIVE_SETTING):
        starts.options({ARCHIVE_SETTING: "maybe"})


# With the Java of this machine.


def java() -> str:
    path = java_path(os.environ)
    assert path is not None
    return path


@pytest.fixture
def real(tmp_path: Path) -> Starts:
    starts = Starts(tmp_path)
    starts.java = Path(java()).resolve().parent.parent
    if not (starts.java / "lib" / "server" / "classes.jsa").exists() or (java_version(java()) or 99) > 25:
        pytest.skip("this Java has no archive of its own")
    assert starts.options() == "", "the first start leaves it to the second"
    return starts


def start(options: str) -> str:
    """What a JVM with these options prints."""
    ended = subprocess.run(
        [java(), *options.split(), "-version"], capture_output=True, text=True, timeout=300, check=True
    )
    return ended.stdout + ended.stderr


def test_java_writes_and_uses_it_and_prints_nothing(real: Starts) -> None:
    printed = start("")
    assert start(real.options()) == printed
    options = real.options()
    assert USED.search(options)
    assert start(options) == printed
    mapped = start(f"{options} -Xlog:class+load")
    assert "shared objects file (top)" in mapped


def test_a_damaged_archive_stops_no_jvm(real: Starts) -> None:
    printed = start("")
    start(real.options())
    used = real.used()
    used.chmod(0o600)
    content = bytearray(used.read_bytes())
    for offset in (16, 200, len(content) // 2, len(content) - 4096):
        damaged = content.copy()
        damaged[offset : offset + 64] = bytes(byte ^ 0xFF for byte in damaged[offset : offset + 64])
        used.write_bytes(damaged)
        options = real.options()
        assert str(used) in options, "only Java can see this damage"
        assert start(options) == printed


def test_an_archive_of_a_class_path_that_is_gone_stops_no_jvm(real: Starts, tmp_path: Path) -> None:
    printed = start("")
    start(real.options())
    assert start(f"{real.options()} -cp {tmp_path}") == printed
