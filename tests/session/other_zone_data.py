"""A Java whose time zones are others: a copy of the one that is used here, in which two zones have changed places."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path


def java_home() -> Path:
    """The folder of the Java that Spark finds."""
    shown = subprocess.run(
        [
            "java" if "JAVA_HOME" not in os.environ else f"{os.environ['JAVA_HOME']}/bin/java",
            "-XshowSettings:properties",
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    (line,) = (line for line in shown.splitlines() if line.strip().startswith("java.home ="))
    return Path(line.partition("=")[2].strip())


def copy_with_zones_exchanged(home: Path, folder: Path, one: str, other: str) -> Path:
    """The copy. Files are linked where the file system allows."""
    shutil.copytree(home, folder, copy_function=_link, ignore_dangling_symlinks=True)
    zones = folder / "lib" / "tzdb.dat"
    content = zones.read_bytes()
    zones.unlink()
    zones.write_bytes(exchanged(content, one, other))
    return folder


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def exchanged(content: bytes, one: str, other: str) -> bytes:
    """A `tzdb.dat`, as `java.time.zone.TzdbZoneRulesProvider` reads it, with the rules of two regions exchanged."""
    position = 1  # behind the format, 1

    def number() -> int:
        nonlocal position
        (value,) = struct.unpack_from(">H", content, position)
        position += 2
        return int(value)

    def text() -> str:
        nonlocal position
        length = number()
        position += length
        return content[position - length : position].decode()

    assert content[0] == 1
    assert text() == "TZDB"
    versions = [text() for _ in range(number())]
    regions = [text() for _ in range(number())]
    for _ in range(number()):
        text_or_rules = number()
        position += text_or_rules
    changed = bytearray(content)
    for _ in versions:
        positions = {}
        for _ in range(number()):
            region = regions[number()]
            positions[region] = position
            number()
        at_one, at_other = positions[one], positions[other]
        changed[at_one : at_one + 2] = content[at_other : at_other + 2]
        changed[at_other : at_other + 2] = content[at_one : at_one + 2]
    return bytes(changed)
