"""Paths of data files: URIs in the log, plain paths in calls of the store, and never outside the table.

See `path` in "Add File and Remove File": a URI by RFC 2396, relative to the table or absolute.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.errors.protocol import PartitionValueError, UnsafePathError
from anabranch.protocol.log_paths import LOG_DIRECTORY, SIDECAR_DIRECTORY

PATH_CHARACTERS_MAX: Final = 8192
"""Twice the limit of any file system."""

_NOT_KEPT: Final = re.compile(r"[^A-Za-z0-9\-_.!~*'():@&=+$,;/]")
"""Characters other than those of ASCII that Java's `URI` does not encode in a path."""
_ENCODED_CATEGORIES: Final = frozenset({"Cc", "Zs", "Zl", "Zp"})
"""Beyond ASCII, Java encodes only controls and spaces."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_PLAIN: Final = (
    r"^[A-Za-z0-9_=\-][A-Za-z0-9_=\-+@,]*(\.[A-Za-z0-9_=\-+@,]+)*(/[A-Za-z0-9_=\-+@,]+(\.[A-Za-z0-9_=\-+@,]+)*)*$"
)
"""Paths that are safe and decode to themselves, as nearly all do."""
_SAME_SCHEMES: Final[dict[str, str]] = {"s3n": "s3a", "s3": "s3a", "abfs": "abfss", "wasb": "wasbs", "": "file"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DataPath:
    """The path of a data file, not encoded."""

    relative: str | None
    """The path below the table's root, `/`-separated; None for a file elsewhere, in an allowed directory."""
    absolute: str
    """The path as Spark spells it: a local path, or a URL whose path is not encoded."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Location:
    """A file or directory, split for comparing."""

    scheme: str
    authority: str
    segments: tuple[str, ...]

    def holds(self, other: _Location) -> bool:
        return (
            (self.scheme, self.authority) == (other.scheme, other.authority)
            and len(other.segments) > len(self.segments)
            and other.segments[: len(self.segments)] == self.segments
        )


def encode_path(plain: str) -> str:
    """The URI of a plain relative path, spelled as Java's `new Path(plain).toUri()` spells it.

    `%` becomes `%25`, so a partition directory `a%3Db` becomes `a%253Db`; `=` and letters beyond ASCII
    stay. A colon in the first segment is encoded, since what precedes it would be read as a scheme.
    """
    first, slash, rest = plain.partition("/")
    return _encode(first).replace(":", "%3A") + slash + _encode(rest)


def decode_path(uri: str, *, table_root: str, allowed_prefixes: Collection[str] = ()) -> str:
    """The plain path of a file of the table: relative to its root, or absolute below an allowed prefix.

    Raises `UnsafePathError`; see `locate`.
    """
    path = locate(uri, table_root=table_root, allowed_prefixes=allowed_prefixes)
    return path.absolute if path.relative is None else path.relative


def locate(uri: str, *, table_root: str, allowed_prefixes: Collection[str] = ()) -> DataPath:
    """The path of the file that the log calls `uri`.

    It is decoded exactly once and then checked: no `..`, no NUL, no backslash, not the log itself, and
    absolute only below `table_root` or one of `allowed_prefixes` (as shallow clones need), with the same
    scheme and authority. Raises `UnsafePathError`.
    """
    try:
        return _locate(uri, table_root, allowed_prefixes)
    except ValueError as error:
        raise UnsafePathError(path=uri[:200], table=table_root, reason=str(error)) from None


def decode_path_column(
    uris: pa.Array | pa.ChunkedArray, *, table_root: str, allowed_prefixes: Collection[str] = ()
) -> pa.Array:
    """`decode_path` for a column of URIs, fast where paths are ordinary."""
    whole = uris.combine_chunks() if isinstance(uris, pa.ChunkedArray) else uris
    text = whole.cast(pa.string())
    unusual = pc.invert(pc.match_substring_regex(text, _PLAIN))
    unusual = pc.or_(unusual, pc.or_(pc.starts_with(text, LOG_DIRECTORY), pc.greater(pc.utf8_length(text), 1024)))
    if not pc.any(unusual).as_py():
        return text
    decoded = [
        decode_path(uri, table_root=table_root, allowed_prefixes=allowed_prefixes)
        for uri in text.filter(unusual).to_pylist()
    ]
    return pc.replace_with_mask(text, unusual, pa.array(decoded, pa.string()))


def relative_path(uri: str, *, table_root: str) -> str | None:
    """The plain path, from the table's root, of the file that the log calls `uri`; None for a file elsewhere.

    Raises `UnsafePathError` for a `uri` that is no path of a file.
    """
    try:
        root = _root_location(table_root)
        location = _location(uri, root)
    except ValueError as error:
        raise UnsafePathError(path=uri[:200], table=table_root, reason=str(error)) from None
    return "/".join(location.segments[len(root.segments) :]) if root.holds(location) else None


def relative_path_column(uris: pa.Array | pa.ChunkedArray, *, table_root: str) -> pa.Array:
    """`relative_path` for a column of URIs, null for files elsewhere; fast where paths are ordinary."""
    whole = uris.combine_chunks() if isinstance(uris, pa.ChunkedArray) else uris
    text = whole.cast(pa.string())
    unusual = pc.invert(pc.match_substring_regex(text, _PLAIN))
    if not pc.any(unusual).as_py():
        return text
    plain = [relative_path(uri, table_root=table_root) for uri in text.filter(unusual).to_pylist()]
    return pc.replace_with_mask(text, unusual, pa.array(plain, pa.string()))


def decode_sidecar_path(uri: str, *, table_root: str) -> str:
    """The plain path of a sidecar, relative to the table's root. See "Sidecar File Information".

    A sidecar is directly in `_delta_log/_sidecars`; its path is a bare name or absolute. Raises
    `UnsafePathError`.
    """
    try:
        directory = _root_location(table_root)
        directory = dataclasses.replace(directory, segments=(*directory.segments, *SIDECAR_DIRECTORY.split("/")))
        location = _location(uri, directory)
        if not directory.holds(location) or len(location.segments) != len(directory.segments) + 1:
            raise ValueError(f"a sidecar must be in {SIDECAR_DIRECTORY}")
    except ValueError as error:
        raise UnsafePathError(path=uri[:200], table=table_root, reason=str(error)) from None
    return f"{SIDECAR_DIRECTORY}/{location.segments[-1]}"


def _locate(uri: str, table_root: str, allowed_prefixes: Collection[str]) -> DataPath:
    root = _root_location(table_root)
    location = _location(uri, root)
    if root.holds(location):
        inside = location.segments[len(root.segments) :]
        if inside[0] == LOG_DIRECTORY:
            raise ValueError("it is a file of the log, not a data file")
        relative = "/".join(inside)
        return DataPath(relative=relative, absolute=f"{table_root.rstrip('/')}/{relative}")
    for prefix in allowed_prefixes:
        allowed = _root_location(prefix)
        if allowed.holds(location):
            inside = location.segments[len(allowed.segments) :]
            if LOG_DIRECTORY in inside:
                raise ValueError("it is a file of a log, not a data file")
            return DataPath(relative=None, absolute=f"{prefix.rstrip('/')}/{'/'.join(inside)}")
    raise ValueError("it is outside the table's directory")


def _location(uri: str, base: _Location) -> _Location:
    """The location of `uri`, which may be relative to `base`."""
    if not uri or len(uri) > PATH_CHARACTERS_MAX:
        raise ValueError("it is empty" if not uri else f"it is longer than {PATH_CHARACTERS_MAX} characters")
    scheme, authority, path = _split(uri)
    if "?" in path or "#" in path:
        raise ValueError("it has a `?` or `#` that is not encoded")
    segments = _segments(_decode(path))
    if not segments or path.endswith("/"):
        raise ValueError("it is not the path of a file")
    if scheme is None and not path.startswith("/"):
        return dataclasses.replace(base, segments=(*base.segments, *segments))
    return _Location(scheme=_canonical_scheme(scheme or "file"), authority=authority, segments=segments)


def _split(uri: str) -> tuple[str | None, str, str]:
    """Scheme, authority and encoded path."""
    match = _SCHEME.match(uri)
    if match is None:
        if uri.startswith("//"):
            raise ValueError("it has a host")
        return None, "", uri
    scheme, rest = match[0][:-1].lower(), uri[match.end() :]
    authority = ""
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    if not rest.startswith("/"):
        raise ValueError(f"it has the scheme `{scheme}` but no absolute path")
    if scheme == "file" and authority:
        raise ValueError("it has a host")
    return scheme, authority, rest


def _decode(path: str) -> str:
    """`path`, percent-decoded once. Raises ValueError for broken escapes."""
    if _BROKEN_ESCAPE.search(path):
        raise ValueError("it has a `%` that begins no escape")
    if "%" not in path:
        return path
    try:
        return unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("its escapes are not UTF-8") from None


def _segments(plain: str) -> tuple[str, ...]:
    if "\0" in plain:
        raise ValueError("it has a NUL")
    if "\\" in plain:
        raise ValueError("it has a backslash")
    segments = tuple(segment for segment in plain.split("/") if segment not in {"", "."})
    if ".." in segments:
        raise ValueError("it has a `..` segment")
    if any("\ud800" <= character <= "\udfff" for character in plain):
        raise ValueError("it is not Unicode text")
    return segments


def _root_location(root: str) -> _Location:
    """The location of a table's root or of an allowed prefix, which are not encoded, as in Spark."""
    match = _SCHEME.match(root)
    if match is None:
        return _Location(scheme="file", authority="", segments=_segments(root))
    scheme, rest = match[0][:-1].lower(), root[match.end() :]
    authority = ""
    if rest.startswith("//"):
        authority, _, rest = rest[2:].partition("/")
    return _Location(scheme=_canonical_scheme(scheme), authority=authority, segments=_segments(rest))


def _canonical_scheme(scheme: str) -> str:
    """One name for the schemes of the same storage."""
    return _SAME_SCHEMES.get(scheme, scheme)


def _encode(text: str) -> str:
    return _NOT_KEPT.sub(_encode_character, text)


def _encode_character(match: re.Match[str]) -> str:
    character = match[0]
    if character >= "\x80" and unicodedata.category(character) not in _ENCODED_CATEGORIES:
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8"))


# Partition directories as Hive and Spark name them: `day=2024-01-01/kind=a%2Fb`.


NULL_DIRECTORY: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory of null and of the empty string."""

_ESCAPED: Final = frozenset([*map(chr, range(1, 0x20)), *'"#%*/:=?[\\]^{\x7f', "'"])
"""The characters that Spark's `ExternalCatalogUtils` escapes; `}` is not among them."""
_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")


def escape_path_name(text: str) -> str:
    """A column name or value, escaped for a directory name."""
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)


def unescape_path_name(text: str) -> str:
    """The reverse of `escape_path_name`; a `%` that begins no escape is kept."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def partition_path(values: Mapping[str, str | None]) -> str:
    """The directory of serialized partition values, in their order; empty for none.

    It is a plain path: the log has it URI-encoded once more (`data_paths.encode_path`).
    """
    return "/".join(_directory(column, value) for column, value in values.items())


def _directory(column: str, value: str | None) -> str:
    return f"{escape_path_name(column)}={escape_path_name(value) if value else NULL_DIRECTORY}"


def parse_partition_path(path: str) -> dict[str, str | None]:
    """Columns and values of the directories in a plain path; the last segment is a file and is not read.

    Raises `PartitionValueError` where one column occurs twice with different values.
    """
    values: dict[str, str | None] = {}
    for directory in path.split("/")[:-1]:
        column, equals, text = directory.partition("=")
        if not equals or not column:
            continue
        name = unescape_path_name(column)
        value = None if text == NULL_DIRECTORY else unescape_path_name(text)
        if name in values and values[name] != value:
            raise PartitionValueError(value=text, data_type="single value", column=name, reason=f"{path!r} has two")
        values[name] = value
    return values


def file_root(table_root: str) -> str:
    """`table_root` as Hadoop reads it: a local path gets its scheme, since the default file system may be another."""
    return f"file:{table_root}" if table_root.startswith("/") else table_root
