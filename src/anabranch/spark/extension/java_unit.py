"""The Java sources of a package as one text: the compiler that Spark ships reads one compilation unit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable

PACKAGE = "delta"
"""Our Java package. Spark takes the name of a format for a package: `delta` is `delta.DefaultSource`."""

DIGEST_CLASS = "SourcesDigest"
"""A generated class: later callers read from it from which sources the classes of a JVM were compiled."""

CLASSES_BY_RELEASE: Mapping[str, tuple[str, ...]] = {
    # The class of offsets of V1 streams, whose package differs by release.
    "V1_OFFSET": (
        "org.apache.spark.sql.execution.streaming.runtime.Offset",
        "org.apache.spark.sql.execution.streaming.Offset",
    ),
    # The description of a new table for a catalog, since Spark 4.1.
    "TABLE_INFO": ("org.apache.spark.sql.connector.catalog.TableInfo", "java.lang.Void"),
    # The interface by which frame writers say that they overwrite a table by its name, since Spark 4.1.
    "SAVES_AS_TABLE": (
        "org.apache.spark.sql.connector.catalog.SupportsV1OverwriteWithSaveAsTable",
        "java.io.Serializable",
    ),
    # Argument and result of a catalog's method for CHANGES FROM, since Spark 4.2.
    "CHANGES_CONTEXT": ("org.apache.spark.sql.connector.catalog.ChangelogContext", "java.lang.Void"),
    "CHANGES_RESULT": ("org.apache.spark.sql.connector.catalog.Changelog", "java.lang.Object"),
}
"""By placeholder in the sources: the class to put there, in the newest release of Spark first.

Where a release lacks the class, the last one is used, and nothing calls our methods with it.
"""

_PROCEDURE = "2"
"""The version of our way from sources to a jar. Raise it with each change of that: older jars are then not used."""


_PLACEHOLDER = re.compile("|".join(CLASSES_BY_RELEASE))


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaUnit:
    """All sources of a package as one compilation unit.

    1. `origins` has one entry for each line of `text`: the file and the line it comes from.
    2. No two imports bring different classes of one simple name.
    """

    text: str
    origins: tuple[tuple[str, int], ...]

    def digest(self, build: str) -> str:
        """32 hexadecimal digits that identify these sources and the `build` of Spark that compiles them."""
        return hashlib.blake2b(f"{_PROCEDURE}\0{build}\0{self.text}".encode(), digest_size=16).hexdigest()

    def with_digest(self, digest: str) -> str:
        """The text with the class that has `digest` at its end."""
        digest_class = f'public final class {DIGEST_CLASS} {{ public static final String VALUE = "{digest}"; }}'
        return f"{self.text}\n{digest_class}\n"

    def explained(self, message: str) -> str:
        """A compiler's message with the original files and lines instead of lines of `text`."""
        once = re.sub(r"(Line \d+, Column \d+: )\1+", r"\1", message)
        return re.sub(r"Line (\d+)(?=, Column)", lambda match: self._origin(int(match[1])), once)

    def _origin(self, line: int) -> str:
        if not 1 <= line <= len(self.origins):
            return f"Line {line}"
        name, number = self.origins[line - 1]
        return f"{name}, Line {number}"


def java_sources(folder: Traversable) -> dict[str, str]:
    """The texts of the Java files of a folder by file name, in the order of names."""
    files = {file.name: file for file in folder.iterdir() if file.name.endswith(".java")}
    return {name: files[name].read_text("utf-8") for name in sorted(files)}


def java_unit(sources: Mapping[str, str], classes: Mapping[str, str], *, package: str = PACKAGE) -> JavaUnit:
    """`sources`, text by file name, as one unit in `package`. `classes` are the classes for the placeholders."""
    imports: dict[str, tuple[str, int]] = {}
    body: list[tuple[str, tuple[str, int]]] = []
    for name, text in sources.items():
        for number, line in enumerate(text.splitlines(), start=1):
            if line.startswith("import "):
                imports.setdefault(line.strip(), (name, number))
            elif not line.startswith("package "):
                body.append((_PLACEHOLDER.sub(lambda match: classes.get(match[0], match[0]), line), (name, number)))
    _check_imports(imports)
    lines = [(f"package {package};", ("", 0)), *imports.items(), *body]
    return JavaUnit(text="\n".join(line for line, _ in lines), origins=tuple(origin for _, origin in lines))


def _check_imports(imports: Iterable[str]) -> None:
    by_name: dict[str, str] = {}
    for line in imports:
        name = line.rstrip(";").rpartition(".")[2]
        other = by_name.setdefault(name, line)
        assert name == "*" or other == line, f"one unit cannot have both {other} and {line}"
