"""The Java sources of a package as one text, which is what the compiler that Spark ships takes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable

PACKAGE = "delta"
"""Spark finds a format by its name as a package: `delta` is `delta.DefaultSource`."""

DIGEST_CLASS = "SourcesDigest"
"""A class made here and not by hand: it tells later callers from which sources the classes of a JVM were made."""

CLASSES_BY_RELEASE: Mapping[str, tuple[str, ...]] = {
    # The class of offsets of V1 streams, whose package differs.
    "V1_OFFSET": (
        "org.apache.spark.sql.execution.streaming.runtime.Offset",
        "org.apache.spark.sql.execution.streaming.Offset",
    ),
    # What tells catalogs of tables to be, since Spark 4.1.
    "TABLE_INFO": ("org.apache.spark.sql.connector.catalog.TableInfo", "java.lang.Void"),
    # By which writers of frames tell that they overwrite a table by its name, since Spark 4.1.
    "SAVES_AS_TABLE": (
        "org.apache.spark.sql.connector.catalog.SupportsV1OverwriteWithSaveAsTable",
        "java.io.Serializable",
    ),
    # What CHANGES FROM asks catalogs for, and how, since Spark 4.2.
    "CHANGES_ASKED": ("org.apache.spark.sql.connector.catalog.ChangelogContext", "java.lang.Void"),
    "CHANGES_FOUND": ("org.apache.spark.sql.connector.catalog.Changelog", "java.lang.Object"),
}
"""Words of the sources that stand for a class, and which it may be, newest release of Spark first.

Our methods with the last one, where a release has no such class, are called by nobody.
"""

_PROCEDURE = "2"
"""To be raised with every change of how sources become a jar: jars made before are then left alone."""


_WORD = re.compile("|".join(CLASSES_BY_RELEASE))


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaUnit:
    """All sources of the package, as one compilation unit.

    1. `origins` has one entry for each line of `text`: the file and the line it comes from.
    2. No two imports bring different classes of one simple name.
    """

    text: str
    origins: tuple[tuple[str, int], ...]

    def digest(self, build: str) -> str:
        """Names what `build` of Spark compiles from these sources, in 32 hexadecimal digits."""
        return hashlib.blake2b(f"{_PROCEDURE}\0{build}\0{self.text}".encode(), digest_size=16).hexdigest()

    def with_digest(self, digest: str) -> str:
        """The text, and behind it the class that tells `digest`."""
        teller = f'public final class {DIGEST_CLASS} {{ public static final String VALUE = "{digest}"; }}'
        return f"{self.text}\n{teller}\n"

    def explained(self, message: str) -> str:
        """A compiler's message with the files and lines as they were written, in the place of those of `text`."""
        once = re.sub(r"(Line \d+, Column \d+: )\1+", r"\1", message)
        return re.sub(r"Line (\d+)(?=, Column)", lambda found: self._origin(int(found[1])), once)

    def _origin(self, line: int) -> str:
        if not 1 <= line <= len(self.origins):
            return f"Line {line}"
        name, number = self.origins[line - 1]
        return f"{name}, Line {number}"


def java_sources(folder: Traversable) -> dict[str, str]:
    """The Java files of a folder: text by name, in the order of names."""
    files = {file.name: file for file in folder.iterdir() if file.name.endswith(".java")}
    return {name: files[name].read_text("utf-8") for name in sorted(files)}


def java_unit(sources: Mapping[str, str], classes: Mapping[str, str], *, package: str = PACKAGE) -> JavaUnit:
    """`sources`, text by file name, as one unit in `package`. `classes` are those that words stand for."""
    imports: dict[str, tuple[str, int]] = {}
    body: list[tuple[str, tuple[str, int]]] = []
    for name, text in sources.items():
        for number, line in enumerate(text.splitlines(), start=1):
            if line.startswith("import "):
                imports.setdefault(line.strip(), (name, number))
            elif not line.startswith("package "):
                body.append((_WORD.sub(lambda found: classes.get(found[0], found[0]), line), (name, number)))
    _check_imports(imports)
    lines = [(f"package {package};", ("", 0)), *imports.items(), *body]
    return JavaUnit(text="\n".join(line for line, _ in lines), origins=tuple(origin for _, origin in lines))


def _check_imports(imports: Iterable[str]) -> None:
    by_name: dict[str, str] = {}
    for line in imports:
        name = line.rstrip(";").rpartition(".")[2]
        other = by_name.setdefault(name, line)
        assert name == "*" or other == line, f"one unit cannot have both {other} and {line}"
