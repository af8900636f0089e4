"""The Java sources that are compiled together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable

PACKAGE = "anabranch"
"""Our Java package. In the package `delta` are only classes whose names others use, such as `delta.DefaultSource`."""

DIGEST_CLASS = "SourcesDigest"
"""A generated class of each unit: later callers read from it from which sources the classes of a JVM were compiled."""

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

_PROCEDURE = "3"
"""The version of our way from sources to a jar. Raise it with each change of that: older jars are then not used."""


_PLACEHOLDER = re.compile("|".join(CLASSES_BY_RELEASE))


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaUnit:
    """Sources that are compiled together. They may be of several packages, and any folder may have any package."""

    package: str
    """The package of the class with the digest."""
    sources: Mapping[str, str]
    """Text by path in the folder of the unit, such as `reads/ListedFiles.java`."""

    def digest(self, build: str) -> str:
        """32 hexadecimal digits that identify these sources and the `build` of Spark that compiles them."""
        parts = (_PROCEDURE, build, self.package, *(part for source in self.sources.items() for part in source))
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    def with_digest(self, digest: str) -> Mapping[str, str]:
        """The sources, and that of the class that has `digest`."""
        text = f'public final class {DIGEST_CLASS} {{ public static final String VALUE = "{digest}"; }}'
        return {**self.sources, f"{DIGEST_CLASS}.java": f"package {self.package};\n\n{text}\n"}


def java_sources(folder: Traversable) -> dict[str, str]:
    """The texts of the Java files in and below a folder by their paths in it, in the order of paths."""
    return dict(sorted(_java_files(folder, "")))


def _java_files(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _java_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".java"):
            yield f"{prefix}{entry.name}", entry.read_text("utf-8")


def java_unit(sources: Mapping[str, str], classes: Mapping[str, str], *, package: str = PACKAGE) -> JavaUnit:
    """A unit of `sources`, with `classes` in the place of their placeholders."""
    replaced = {
        path: _PLACEHOLDER.sub(lambda match: classes.get(match[0], match[0]), text) for path, text in sources.items()
    }
    return JavaUnit(package=package, sources=replaced)
